/** Looking for words in a transcript, and putting others in their place. Pure. */
import type { Segment, Mark } from "./segments";

export interface FindOptions {
  matchCase: boolean;
  wholeWords: boolean;
}

export interface Hit {
  /** The number of the segment. */
  segment: number;
  start: number;
  end: number;
}

interface Folded {
  text: string;
  /** Where each character of the folded text comes from; nothing when it is the same place. */
  places?: number[];
}

const LETTER = /[\p{L}\p{N}\p{M}]/u;
const PLAIN = /^[\x00-\x7f]*$/;
const ACCENTS = /\p{M}/gu;

const foldedSegments = new WeakMap<Segment, Folded>();

/** Without case and accents, with the way back to the places in the text as it is. */
export function folded(text: string): Folded {
  if (PLAIN.test(text)) return { text: text.toLowerCase() };
  let made = "";
  const places: number[] = [];
  let place = 0;
  for (const char of text) {
    const bare = char.normalize("NFD").replace(ACCENTS, "").toLowerCase();
    for (let each = 0; each < bare.length; each += 1) places.push(place);
    made += bare;
    place += char.length;
  }
  places.push(text.length);
  return { text: made, places };
}

function foldedSegment(segment: Segment): Folded {
  let known = foldedSegments.get(segment);
  if (!known) foldedSegments.set(segment, (known = folded(segment.text)));
  return known;
}

export function findAll(segments: readonly Segment[], query: string, options: FindOptions): Hit[] {
  const wanted = options.matchCase ? query : folded(query).text;
  if (!wanted.trim()) return [];
  const hits: Hit[] = [];
  for (const [number, segment] of segments.entries()) {
    const within: Folded = options.matchCase ? { text: segment.text } : foldedSegment(segment);
    for (let at = within.text.indexOf(wanted); at >= 0; at = within.text.indexOf(wanted, at + wanted.length)) {
      const start = within.places?.[at] ?? at;
      const end = within.places ? endOf(segment.text, within.places, at + wanted.length) : at + wanted.length;
      if (!options.wholeWords || isWhole(segment.text, start, end)) hits.push({ segment: number, start, end });
    }
  }
  return hits;
}

/** Accents that were left out of the comparison belong to the letter before them. */
function endOf(text: string, places: number[], at: number): number {
  let end = places[at] ?? text.length;
  while (end < text.length && /\p{M}/u.test(text[end]!)) end += 1;
  return end;
}

function isWhole(text: string, start: number, end: number): boolean {
  return !LETTER.test(text[start - 1] ?? "") && !LETTER.test(text[end] ?? "");
}

/** The marks of each segment that has any, by its id. Their numbers count the hits. */
export function marksOf(segments: readonly Segment[], hits: readonly Hit[]): Map<string, Mark[]> {
  const made = new Map<string, Mark[]>();
  for (const [number, hit] of hits.entries()) {
    const id = segments[hit.segment]!.id;
    const mark = { start: hit.start, end: hit.end, number };
    const known = made.get(id);
    if (known) known.push(mark);
    else made.set(id, [mark]);
  }
  return made;
}

/** The segments that change when each hit becomes `replacement`, with their new texts. */
export function replaced(segments: readonly Segment[], hits: readonly Hit[], replacement: string): { id: string; text: string }[] {
  const texts = new Map<number, string>();
  // From the last to the first, so that the places of the others stay true.
  for (const hit of [...hits].reverse()) {
    const text = texts.get(hit.segment) ?? segments[hit.segment]!.text;
    texts.set(hit.segment, text.slice(0, hit.start) + replacement + text.slice(hit.end));
  }
  return [...texts]
    .map(([number, text]) => ({ id: segments[number]!.id, text: oneLine(text), before: segments[number]!.text }))
    .filter((each) => each.text !== each.before)
    .map(({ id, text }) => ({ id, text }))
    .reverse();
}

/** As the server keeps it. */
export function oneLine(text: string): string {
  return text.split(/\s+/).filter(Boolean).join(" ");
}

/** The first hit at or behind a segment; the very first one when there is none. */
export function firstFrom(hits: readonly Hit[], segment: number): number {
  const at = hits.findIndex((each) => each.segment >= segment);
  return at < 0 ? 0 : at;
}
