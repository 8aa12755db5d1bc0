import { expect, test } from "vitest";
import { parseStoryboard, tileAt } from "../src/player/storyboard";
import { cuesAt, lastBegun, parseVtt } from "../src/player/vtt";

const CAPTIONS = `WEBVTT
X-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0

00:00:00.000 --> 00:00:01.500
<v Ada>Hello &lt;b&gt; &amp; you

NOTE not for people

2
01:02:03.250 --> 01:02:04,000 align:start
two
lines
`;

test("captions are read with their speakers, as text", () => {
  expect(parseVtt(CAPTIONS)).toEqual([
    { start: 0, end: 1.5, text: "Hello <b> & you", speaker: "Ada" },
    { start: 3723.25, end: 3724, text: "two\nlines" },
  ]);
});

test("what looks like markup is left out and nothing becomes markup", () => {
  const [cue] = parseVtt("WEBVTT\n\n00:00.000 --> 00:01.000\n<i>a</i><script>x</script> <00:00.500>&#60;img&#62; &unknown; 1 < 2");
  expect(cue?.text).toBe("ax <img> &unknown; 1 < 2");
});

test("carriage returns, nonsense and nothing", () => {
  expect(parseVtt("")).toEqual([]);
  expect(parseVtt("<html>not captions</html>")).toEqual([]);
  expect(parseVtt("WEBVTT\r\n\r\n00:00.000 --> 00:01.000\r\nhi\r\n")).toEqual([{ start: 0, end: 1, text: "hi" }]);
});

test("what is shown at a time", () => {
  const cues = [
    { start: 0, end: 2, text: "a" },
    { start: 1, end: 3, text: "b" },
    { start: 5, end: 6, text: "c" },
  ];
  expect(cuesAt(cues, 1.5).map((each) => each.text)).toEqual(["a", "b"]);
  expect(cuesAt(cues, 4)).toEqual([]);
  expect(cuesAt(cues, 5).map((each) => each.text)).toEqual(["c"]);
  expect(lastBegun(cues, -1)).toBe(-1);
  expect(lastBegun([], 3)).toBe(-1);
});

const BASE = "https://rushes.example/api/v1/media/med_1/stream/ver_1/storyboard.vtt";

test("the storyboard's pictures lie beside it", () => {
  const text = "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\nstoryboard-0.jpg#xywh=0,0,160,90\n\n00:00:02.000 --> 00:00:04.000\nstoryboard-0.jpg#xywh=160,0,160,90\n";
  const tiles = parseStoryboard(text, BASE);
  expect(tiles[0]?.url).toBe("https://rushes.example/api/v1/media/med_1/stream/ver_1/storyboard-0.jpg");
  expect(tileAt(tiles, 3)).toMatchObject({ x: 160, y: 0, width: 160, height: 90 });
  expect(tileAt(tiles, 100)?.x).toBe(160);
  expect(tileAt([], 1)).toBeUndefined();
});

test("pictures from elsewhere are none", () => {
  expect(parseStoryboard("WEBVTT\n\n00:00.000 --> 00:02.000\nhttps://other.example/x.jpg#xywh=0,0,1,1\n", BASE)).toEqual([]);
  expect(parseStoryboard("WEBVTT\n\n00:00.000 --> 00:02.000\nno place at all\n", BASE)).toEqual([]);
});
