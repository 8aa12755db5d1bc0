/** Reads WebVTT as text: what looks like markup in it is left out, never shown as markup. Pure. */
export interface Cue {
  start: number;
  end: number;
  text: string;
  speaker?: string;
}

const TIMING = /^\s*((?:\d+:)?\d{1,2}:\d{2}[.,]\d{3})\s+-->\s+((?:\d+:)?\d{1,2}:\d{2}[.,]\d{3})/;
const VOICE = /<v(?:\.[^\s>]*)?\s+([^<>]*)>/;
const TAG = /<\/?[A-Za-z][^<>]*>|<\d[\d:.]*>|<\/?>/g;
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", nbsp: "\u00a0", lrm: "\u200e", rlm: "\u200f", quot: '"' };

export function parseVtt(text: string): Cue[] {
  const cues: Cue[] = [];
  for (const block of text.replace(/\r\n?/g, "\n").split(/\n{2,}/)) {
    const lines = block.split("\n");
    const at = lines.findIndex((line) => TIMING.test(line));
    if (at < 0) continue;
    const [, start, end] = TIMING.exec(lines[at]!)!;
    const raw = lines.slice(at + 1).join("\n").trim();
    const speaker = VOICE.exec(raw)?.[1];
    cues.push({
      start: seconds(start!),
      end: seconds(end!),
      text: plain(raw),
      ...(speaker ? { speaker: plain(speaker) } : {}),
    });
  }
  return cues.sort((one, other) => one.start - other.start);
}

/** Those that are shown at a time. Cues are in order of their start. */
export function cuesAt(cues: Cue[], time: number): Cue[] {
  const found: Cue[] = [];
  // Captions overlap rarely and briefly, so a few before the last that has begun are enough.
  for (let at = lastBegun(cues, time), left = 8; at >= 0 && left > 0; at -= 1, left -= 1) {
    if (cues[at]!.end > time) found.unshift(cues[at]!);
  }
  return found;
}

/** The number of the last that has begun, or -1. */
export function lastBegun(cues: { start: number }[], time: number): number {
  let low = 0;
  let high = cues.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cues[middle]!.start <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function seconds(clock: string): number {
  return clock
    .replace(",", ".")
    .split(":")
    .reduce((sum, part) => sum * 60 + Number(part), 0);
}

function plain(text: string): string {
  return text
    .replace(TAG, "")
    .replace(/&([a-z]+|#\d{1,7}|#x[0-9a-f]{1,6});/gi, (all, name: string) => character(name) ?? all);
}

function character(name: string): string | undefined {
  if (!name.startsWith("#")) return ENTITIES[name.toLowerCase()];
  const code = /^#x/i.test(name) ? parseInt(name.slice(2), 16) : Number(name.slice(1));
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : undefined;
}
