/** What a master playlist tells, as far as it matters beside the player's engine. Pure. */

/** The streams it lists; what was said of captions does not count. */
export function streamsOf(text: string): string[] {
  const lines = text.split(/\r?\n/);
  return lines.filter((line, at) => line && !line.startsWith("#") && lines[at - 1]?.startsWith("#EXT-X-STREAM-INF:")).sort();
}

/** Words to read along: what was said, or subtitles that came with the recording. */
export interface Texts {
  /** "" when nobody knows it. */
  language: string;
  name: string;
  /** The WebVTT, seen from the playlist. */
  file: string;
}

/** What was said comes first, then subtitles as they are listed. */
export function textsOf(master: string): Texts[] {
  const lines = master.split(/\r?\n/).filter((each) => each.startsWith("#EXT-X-MEDIA:") && each.includes("TYPE=SUBTITLES"));
  const value = (line: string, name: string) => new RegExp(`[:,]${name}="([^"]*)"`).exec(line)?.[1] ?? "";
  return lines
    .map((line) => ({
      language: value(line, "LANGUAGE"),
      name: value(line, "NAME"),
      file: value(line, "URI").replace(/^captions\.m3u8$/, CAPTIONS).replace(/\/playlist\.m3u8$/, `/${CAPTIONS}`),
    }))
    .sort((one, other) => Number(other.file === CAPTIONS) - Number(one.file === CAPTIONS));
}

const CAPTIONS = "captions.vtt";

export function sameStreams(one: string, other: string): boolean {
  return streamsOf(one).join("\n") === streamsOf(other).join("\n");
}

export interface Level {
  width: number;
  height: number;
  bitrate: number;
  url: string;
  codec?: string | undefined;
}

export interface Quality {
  /** Its number among the engine's levels. */
  level: number;
  /** 1080 of 1920 × 1080 and of 1080 × 1920. */
  lines: number;
  name: string;
}

const CODECS: [RegExp, string][] = [
  [/^av01/, "AV1"],
  [/^(hvc1|hev1)/, "HEVC"],
];

/** Best first. The codec is told only where it makes a difference. */
export function qualitiesOf(levels: Level[], original: (name: string) => string): Quality[] {
  return levels
    .map((each, level) => ({ each, level, lines: Math.min(each.width, each.height) || 0 }))
    .sort((one, other) => other.lines - one.lines || other.each.bitrate - one.each.bitrate)
    .map(({ each, level, lines }) => ({ level, lines, name: nameOf(each, lines, original) }));
}

function nameOf(level: Level, lines: number, original: (name: string) => string): string {
  const size = lines ? `${lines}p` : `${Math.round(level.bitrate / 1000)} kbit/s`;
  if (/\/original\/[^/]*$/.test(level.url)) return original(size);
  const codec = CODECS.find(([pattern]) => pattern.test(level.codec ?? ""))?.[1];
  return codec ? `${size} ${codec}` : size;
}

/** The level that is meant when so many lines are asked for: the best that is not above it. */
export function levelFor(qualities: Quality[], lines: number): number {
  const fitting = qualities.find((each) => each.lines <= lines) ?? qualities.at(-1);
  return fitting ? fitting.level : -1;
}
