import { expect, test } from "vitest";
import { levelFor, qualitiesOf, sameStreams, streamsOf, textsOf } from "../src/player/manifest";

const MASTER = `#EXTM3U
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="audio",URI="audio/playlist.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=5000000,RESOLUTION=1920x1080
1080p/playlist.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=600000,RESOLUTION=640x360
360p/playlist.m3u8
`;
const CAPTIONED = MASTER.replace("#EXT-X-STREAM", '#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="captions",NAME="en",LANGUAGE="en",URI="captions.m3u8"\n#EXT-X-STREAM');
const original = (size: string) => `${size} (original)`;

test("the streams of a master playlist, whatever is said of captions", () => {
  expect(streamsOf(MASTER)).toEqual(["1080p/playlist.m3u8", "360p/playlist.m3u8"]);
  expect(sameStreams(MASTER, CAPTIONED)).toBe(true);
  expect(sameStreams(MASTER, MASTER.replace("1080p/", "original/"))).toBe(false);
});

test("what there is to read along, what was said first", () => {
  const subtitles = '#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="captions",NAME="Deutsch",LANGUAGE="de",URI="subtitles/playlist.m3u8"\n';
  const said = { language: "en", name: "en", file: "captions.vtt" };
  expect(textsOf(MASTER)).toEqual([]);
  expect(textsOf(CAPTIONED)).toEqual([said]);
  expect(textsOf(CAPTIONED.replace(',LANGUAGE="en"', ""))).toEqual([{ ...said, language: "" }]);
  expect(textsOf(subtitles + CAPTIONED)).toEqual([said, { language: "de", name: "Deutsch", file: "subtitles/captions.vtt" }]);
});

const level = (width: number, height: number, name: string, codec = "avc1.640028") => ({ width, height, bitrate: width, url: `https://x/ver_1/${name}/playlist.m3u8`, codec });

test("qualities are named by their short side, best first", () => {
  const levels = [level(640, 360, "360p"), level(1080, 1920, "1080p"), level(1920, 1080, "1080p-av1", "av01.0"), level(1280, 720, "original")];
  expect(qualitiesOf(levels, original).map((each) => each.name)).toEqual(["1080p AV1", "1080p", "720p (original)", "360p"]);
  expect(qualitiesOf([{ width: 0, height: 0, bitrate: 128_000, url: "audio/playlist.m3u8" }], original)[0]?.name).toBe("128 kbit/s");
});

test("a wish for a quality is met as well as it can be", () => {
  const qualities = qualitiesOf([level(640, 360, "360p"), level(1280, 720, "720p")], original);
  expect(levelFor(qualities, 720)).toBe(1);
  expect(levelFor(qualities, 1080)).toBe(1);
  expect(levelFor(qualities, 480)).toBe(0);
  expect(levelFor(qualities, 144)).toBe(0);
  expect(levelFor([], 720)).toBe(-1);
});
