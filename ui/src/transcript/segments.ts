/** A transcript as it is shown: segments with their words, and what is said at a moment. Pure. */
import type { Transcript, TranscriptSegment, TranscriptWord } from "../lib/api";

export interface Spoken {
  start: number;
  end: number;
  text: string;
  confidence: number | null;
}

export interface Segment {
  id: string;
  start: number;
  end: number;
  speaker: string | null;
  /** What it is spoken in, for those who read it aloud; undefined where nobody knows. */
  language?: string | undefined;
  text: string;
  words: Spoken[];
  /** A text that came without times: it can be read, and nothing else. */
  bare?: boolean;
}

/** A part of a segment's text. `word` is the number of the word that it is, or -1 for what lies between. */
export interface Piece {
  text: string;
  word: number;
}

/** Something in a segment that was looked for, by its place in the text. */
export interface Mark {
  start: number;
  end: number;
  number: number;
}

export interface MarkedPiece extends Piece {
  /** The number of the mark it is in, or -1. */
  mark: number;
}

/** Under this the machine was not sure. */
export const UNSURE = 0.5;
/** A word stays marked over a pause this short, so that the mark does not flicker. */
const LINGER_SECONDS = 0.6;

/** So many segments may begin while somebody goes on talking. */
const AT_ONCE = 8;

type Given = Pick<Transcript, "text" | "segments" | "words"> & { language?: string | null };

/** As the server does it, a word is in the segment that it names, else in the last one that has begun. */
export function segmentsOf(given: Given): Segment[] {
  const segments = given.segments.map((each) => segmentOf(each, given.language));
  if (!segments.length) return bareSegments(given);
  segments.sort((one, other) => one.start - other.start);
  const named = new Map(segments.map((each) => [each.id, each]));
  let at = 0;
  for (const word of given.words) {
    const own = word.segment ? named.get(word.segment) : undefined;
    if (own) {
      own.words.push(spokenOf(word));
      continue;
    }
    if (word.start < segments[at]!.start) at = Math.max(lastBegun(segments, word.start), 0);
    while (at + 1 < segments.length && segments[at + 1]!.start <= word.start) at += 1;
    segments[at]!.words.push(spokenOf(word));
  }
  return segments;
}

function segmentOf(segment: TranscriptSegment, language: string | null | undefined): Segment {
  const { id, start, end, text } = segment;
  return { id, start, end, text, speaker: segment.speaker ?? null, language: segment.language ?? language ?? undefined, words: [] };
}

function spokenOf(word: TranscriptWord): Spoken {
  return { start: word.start, end: word.end, text: word.word, confidence: word.confidence };
}

function bareSegments({ text, language }: Given): Segment[] {
  const paragraphs = text.split("\n").filter((each) => each.trim());
  return paragraphs.map((each, at) => ({
    ...{ id: `text-${at}`, start: 0, end: 0, speaker: null },
    ...{ text: each, language: language ?? undefined, words: [], bare: true },
  }));
}

/** The number of the last thing that has begun at `time`; -1 before the first. */
export function lastBegun(all: readonly { start: number }[], time: number): number {
  let low = 0;
  let high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle]!.start <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The last that has begun; of people who talk at once, whoever goes on. -1 before the first. */
export function segmentAt(segments: readonly Segment[], time: number): number {
  if (segments[0]?.bare) return -1;
  const last = lastBegun(segments, time);
  for (let at = last, left = AT_ONCE; at >= 0 && left > 0; at -= 1, left -= 1) {
    if (segments[at]!.end > time) return at;
  }
  return last;
}

/** The word that is being spoken; -1 in a pause. */
export function wordAt(segment: Segment | undefined, time: number): number {
  if (!segment) return -1;
  const at = lastBegun(segment.words, time);
  return at >= 0 && time < segment.words[at]!.end + LINGER_SECONDS ? at : -1;
}

const LETTER = /[\p{L}\p{N}\p{M}]/u;

/** The text cut into its words. Where people wrote something else than the words say, the text counts. */
export function piecesOf(segment: Segment): Piece[] {
  const pieces: Piece[] = [];
  let place = 0;
  for (const [number, word] of segment.words.entries()) {
    const at = placeOf(segment.text, word.text, place);
    if (at < 0) continue;
    if (at > place) pieces.push({ text: segment.text.slice(place, at), word: -1 });
    pieces.push({ text: word.text, word: number });
    place = at + word.text.length;
  }
  if (place < segment.text.length) pieces.push({ text: segment.text.slice(place), word: -1 });
  return pieces;
}

function placeOf(text: string, word: string, from: number): number {
  const at = word ? text.indexOf(word, from) : -1;
  if (at < 0 || !LETTER.test(text.slice(from, at))) return at;
  // Something stands in between that is no word of ours: then it must not be a part of that.
  const isAlone = !LETTER.test(text[at - 1] ?? "") && !LETTER.test(text[at + word.length] ?? "");
  return isAlone ? at : -1;
}

/** The pieces cut again where a mark begins or ends. */
export function marked(pieces: readonly Piece[], marks: readonly Mark[]): MarkedPiece[] {
  const made: MarkedPiece[] = [];
  let place = 0;
  for (const piece of pieces) {
    const end = place + piece.text.length;
    let from = place;
    for (const mark of marks) {
      const first = Math.max(mark.start, from);
      const last = Math.min(mark.end, end);
      if (first >= last) continue;
      if (first > from) made.push({ ...piece, text: piece.text.slice(from - place, first - place), mark: -1 });
      made.push({ ...piece, text: piece.text.slice(first - place, last - place), mark: mark.number });
      from = last;
    }
    if (from < end) made.push({ ...piece, text: piece.text.slice(from - place), mark: -1 });
    place = end;
  }
  return made;
}

/** The new segments, but each that says the same as before is the same object: nothing has to be drawn again. */
export function reconciled(before: readonly Segment[], after: readonly Segment[]): Segment[] {
  const known = new Map(before.map((each) => [each.id, each]));
  return after.map((each) => {
    const old = known.get(each.id);
    return old && isSame(old, each) ? old : each;
  });
}

function isSame(one: Segment, other: Segment): boolean {
  return (
    one.text === other.text &&
    one.speaker === other.speaker &&
    one.language === other.language &&
    one.start === other.start &&
    one.end === other.end &&
    one.words.length === other.words.length &&
    one.words.every((word, at) => isSameWord(word, other.words[at]!))
  );
}

function isSameWord(one: Spoken, other: Spoken): boolean {
  return one.start === other.start && one.end === other.end && one.text === other.text && one.confidence === other.confidence;
}

/** Whether a segment is the first of somebody's turn. */
export function beginsTurn(segments: readonly Segment[], at: number): boolean {
  return at === 0 || segments[at]?.speaker !== segments[at - 1]?.speaker;
}

/** All segments of the turn that a segment is in. */
export function turnOf(segments: readonly Segment[], at: number): Segment[] {
  let first = at;
  while (!beginsTurn(segments, first)) first -= 1;
  let end = at + 1;
  while (end < segments.length && !beginsTurn(segments, end)) end += 1;
  return segments.slice(first, end);
}
