/** Times to a tenth of a second, for cutting. Pure. */
import { clock } from "../lib/format";
import { momentOf } from "../player/memory";

/** 83.46 → "1:23.5". */
export function precise(seconds: number): string {
  const tenths = Math.round(Math.max(0, seconds) * 10);
  return `${clock(Math.floor(tenths / 10))}.${tenths % 10}`;
}

/** What somebody wrote, in seconds; undefined when it is no time. */
export function written(text: string): number | undefined {
  return momentOf(text.trim().replace(",", "."));
}

export function milliseconds(seconds: number): number {
  return Math.round(seconds * 1000) / 1000;
}
