/** A transcript that is still being made. Pure. */
import type { Segment, Spoken } from "./segments";

/** One finished window, as the event tells it. */
export interface Passage {
  passage: number;
  start: number;
  end: number;
  text: string;
  words: { start: number; end: number; word: string }[];
}

const SENTENCE_END = /[.!?…。！？]["'”’»)\]]*$/;

/** What was read at once, and behind it what was told since. */
export function grown(read: readonly Segment[], passages: Iterable<Passage>): Segment[] {
  const end = read.reduce((latest, each) => Math.max(latest, each.end), -1);
  const told = [...passages]
    // Whatever was told while we read is in what we have read.
    .filter((each) => (each.start + each.end) / 2 > end)
    .sort((one, other) => one.start - other.start);
  return [...read, ...told.flatMap(segmentsOfPassage)];
}

function segmentsOfPassage(passage: Passage): Segment[] {
  const segment = (words: Spoken[], at: number): Segment => ({
    id: `passage-${passage.passage}-${at}`,
    start: words[0]?.start ?? passage.start,
    end: words.at(-1)?.end ?? passage.end,
    speaker: null,
    text: words.map((each) => each.text).join(" "),
    words,
  });
  const words = passage.words.map((each) => ({ ...each, text: each.word.trim(), confidence: null }));
  // Scripts without spaces, and engines without words, have it as it was written.
  if (!words.length || words.map((each) => each.text).join(" ") !== passage.text.trim()) {
    return [{ ...segment([], 0), text: passage.text, words }];
  }
  return sentences(words).map(segment);
}

function sentences(words: readonly Spoken[]): Spoken[][] {
  const made: Spoken[][] = [[]];
  for (const [at, word] of words.entries()) {
    made.at(-1)!.push(word);
    if (SENTENCE_END.test(word.text) && at + 1 < words.length) made.push([]);
  }
  return made;
}
