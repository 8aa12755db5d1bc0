/** Who talks how much, and when. Pure. */
import type { Segment } from "./segments";

export interface Share {
  label: string;
  seconds: number;
  /** Of all that is said, from 0 to 1. */
  share: number;
  /** When they speak: start and end in seconds, in order. */
  spans: [number, number][];
}

/** A pause this short does not end what somebody says. */
const BREATH_SECONDS = 1;

/** Who talks most is first. Nothing of a text without speakers or times. */
export function sharesOf(segments: readonly Segment[]): Share[] {
  const found = new Map<string, { seconds: number; spans: [number, number][] }>();
  let before = "";
  for (const { speaker, start, end, bare } of segments) {
    if (!speaker || bare || end <= start) continue;
    const known = found.get(speaker) ?? { seconds: 0, spans: [] };
    found.set(speaker, known);
    known.seconds += end - start;
    const last = known.spans.at(-1);
    if (last && before === speaker && start - last[1] <= BREATH_SECONDS) last[1] = Math.max(last[1], end);
    else known.spans.push([start, end]);
    before = speaker;
  }
  const all = [...found.values()].reduce((sum, each) => sum + each.seconds, 0);
  return [...found]
    .map(([label, { seconds, spans }]) => ({ label, seconds, spans, share: seconds / all }))
    .sort((one, other) => other.seconds - one.seconds);
}

/** Where somebody speaks next; from the beginning again after their last words. */
export function nextOf({ spans }: Share, time: number): number {
  // Whoever is heard just now is not next.
  return (spans.find(([start]) => start > time + BREATH_SECONDS) ?? spans[0])?.[0] ?? 0;
}
