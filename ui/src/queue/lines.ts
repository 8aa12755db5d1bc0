/** A log that comes in pieces, as lines for people. Pure. */
import { exactTime } from "../lib/format";

export const MOST_LINES = 3_000;

export class LineReader {
  private rest = "";

  /** The lines that are complete now. */
  push(text: string): string[] {
    const pieces = (this.rest + text).split("\n");
    this.rest = pieces.pop() ?? "";
    return pieces;
  }
}

/** Only the newest stay. */
export function kept(lines: string[], more: string[]): string[] {
  return [...lines, ...more].slice(-MOST_LINES);
}

/** "2026-11-16T10:20:30.123Z text" with the reader's own time of day. */
export function forPeople(line: string): { time: string; text: string } {
  const at = line.indexOf(" ");
  const when = at > 0 ? Date.parse(line.slice(0, at)) : NaN;
  if (Number.isNaN(when)) return { time: "", text: line };
  return { time: exactTime(when), text: line.slice(at + 1) };
}
