/** A part of the whole, with two ends that can be moved. Pure. */
export interface Selection {
  start: number;
  end: number;
}

/** What the server takes at least. */
export const SHORTEST_SECONDS = 0.1;

/** The part with one of its ends moved; they stay inside and apart. An end that is moved over the
other one lets that go as far as it can. */
export function moved(selection: Selection, ends: Partial<Selection>, whole: number): Selection {
  let { start, end } = { ...selection, ...ends };
  start = Math.max(0, Math.min(start, whole - SHORTEST_SECONDS));
  end = Math.min(whole, Math.max(end, SHORTEST_SECONDS));
  if (end - start >= SHORTEST_SECONDS - 1e-6) return { start, end };
  return ends.start !== undefined ? { start, end: whole } : { start: 0, end };
}
