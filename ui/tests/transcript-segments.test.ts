import { describe, expect, test } from "vitest";
import { grown, type Passage } from "../src/transcript/growing";
import {
  beginsTurn,
  segmentAt,
  segmentsOf,
  marked,
  piecesOf,
  reconciled,
  turnOf,
  wordAt,
  type Segment,
} from "../src/transcript/segments";

const word = (start: number, text: string, end = start + 0.5) => ({ start, end, word: text, confidence: 0.9 });
const apiSegment = (id: string, start: number, end: number, text: string, speaker?: string) => ({
  ...{ id, start, end, text },
  ...(speaker ? { speaker } : {}),
});

function segment(text: string, words: string[] = text.split(" "), start = 0): Segment {
  return {
    ...{ id: `line-${start}`, start, end: start + words.length, speaker: null, text },
    words: words.map((each, at) => ({ start: start + at, end: start + at + 0.5, text: each, confidence: null })),
  };
}

describe("words and their segments", () => {
  test("a word is in the last segment that has begun", () => {
    const segments = segmentsOf({
      text: "",
      segments: [apiSegment("a", 0, 2, "one two"), apiSegment("b", 1.5, 4, "three four")],
      words: [word(0, "one"), word(1, "two", 1.9), word(1.5, "three"), word(3, "four")],
    });
    expect(segments.map((each) => each.words.map((said) => said.text))).toEqual([["one", "two"], ["three", "four"]]);
  });

  test("words before the first segment and out of order still find a place", () => {
    const segments = segmentsOf({
      text: "",
      segments: [apiSegment("b", 5, 6, "later"), apiSegment("a", 1, 2, "early")],
      words: [word(5, "later"), word(0.5, "early")],
    });
    expect(segments.map((each) => [each.id, each.words.map((said) => said.text)])).toEqual([["a", ["early"]], ["b", ["later"]]]);
  });

  test("of people who talk at once, a word is in the segment that it names", () => {
    const segments = segmentsOf({
      text: "",
      segments: [apiSegment("a", 0, 4, "one two three"), apiSegment("b", 1, 2, "yes")],
      words: [word(0, "one"), word(1, "yes"), { ...word(1.5, "two"), segment: "a" }, { ...word(3, "three"), segment: "a" }],
    });
    expect(segments.map((each) => each.words.map((said) => said.text))).toEqual([["one", "two", "three"], ["yes"]]);
    expect([0.5, 1.5, 3, 9].map((time) => segmentAt(segments, time))).toEqual([0, 1, 0, 1]);
  });

  test("a text without times is its paragraphs", () => {
    const segments = segmentsOf({ text: "One.\n\nTwo.", segments: [], words: [] });
    expect(segments.map((each) => [each.text, each.bare])).toEqual([["One.", true], ["Two.", true]]);
    expect(segmentAt(segments, 3)).toBe(-1);
  });
});

describe("what is said at a moment", () => {
  const segments = [segment("one two", undefined, 1), segment("three", undefined, 10)];

  test.each([
    [0, -1],
    [1, 0],
    [9.99, 0],
    [10, 1],
    [1000, 1],
  ])("at %d s it is segment %d", (time, expected) => expect(segmentAt(segments, time)).toBe(expected));

  test.each([
    [0.9, -1],
    [1, 0],
    [1.9, 0],
    [2, 1],
    [2.9, 1],
    [4, -1],
  ])("at %d s it is word %d", (time, expected) => expect(wordAt(segments[0], time)).toBe(expected));

  test("it is found quickly in a hundred thousand words", () => {
    const many = Array.from({ length: 8000 }, (_, at) => segment("a b c d e f g h i j k l m", undefined, at * 20));
    const begun = performance.now();
    let wrong = 0;
    for (let time = 0; time < 160_000; time += 1.6) {
      if (segmentAt(many, time) !== Math.floor(time / 20)) wrong += 1;
    }
    expect(wrong).toBe(0);
    expect(performance.now() - begun).toBeLessThan(2000);
  });
});

describe("the text as pieces", () => {
  const texts = (given: Segment) => piecesOf(given).map((each) => (each.word < 0 ? `(${each.text})` : each.text));

  test("words and what is between them", () => {
    expect(texts(segment("Good morning, Ada.", ["Good", "morning,", "Ada."]))).toEqual(["Good", "( )", "morning,", "( )", "Ada."]);
  });

  test("scripts without spaces", () => {
    expect(texts(segment("你好世界", ["你好", "世界"]))).toEqual(["你好", "世界"]);
  });

  test("what people wrote counts more than the words", () => {
    const pieces = texts(segment("That is quite right", ["a", "is", "wrong", "right"]));
    expect(pieces).toEqual(["(That )", "is", "( quite )", "right"]);
  });

  test("nothing is lost whatever the words are", () => {
    for (const words of [[], ["x"], ["", "b"], ["a", "a", "a"], ["c", "a"]]) {
      expect(piecesOf(segment("a b c a", words)).map((each) => each.text).join("")).toBe("a b c a");
    }
  });

  test("marks cut pieces, and stay within them", () => {
    const pieces = marked(piecesOf(segment("one two three")), [
      { start: 2, end: 5, number: 0 },
      { start: 8, end: 13, number: 1 },
    ]);
    expect(pieces.map((each) => [each.text, each.word, each.mark])).toEqual([
      ["on", 0, -1],
      ["e", 0, 0],
      [" ", -1, 0],
      ["t", 1, 0],
      ["wo", 1, -1],
      [" ", -1, -1],
      ["three", 2, 1],
    ]);
  });
});

test("segments that say the same stay the same objects", () => {
  const before = [segment("one", undefined, 0), segment("two", undefined, 5)];
  const after = reconciled(before, [segment("one", undefined, 0), segment("other", undefined, 5)]);
  expect(after[0]).toBe(before[0]);
  expect(after[1]).not.toBe(before[1]);
});

test("turns", () => {
  const said = (speaker: string | null, at: number) => ({ ...segment("x", undefined, at), speaker });
  const segments = [said("A", 0), said("A", 1), said("B", 2), said(null, 3)];
  expect(segments.map((_, at) => beginsTurn(segments, at))).toEqual([true, false, true, true]);
  expect(turnOf(segments, 1).map((each) => each.start)).toEqual([0, 1]);
  expect(turnOf(segments, 3).map((each) => each.start)).toEqual([3]);
});

describe("a transcript that grows", () => {
  const passage = (number: number, start: number, text: string): Passage => ({
    ...{ passage: number, start, end: start + 10, text },
    words: text.split(" ").map((each, at) => ({ start: start + at, end: start + at + 0.5, word: each })),
  });

  test("what was told is behind what was read, in order, and only once", () => {
    const read = [{ ...segment("Read before.", undefined, 0), end: 9 }];
    const segments = grown(read, [passage(2, 20, "And then."), passage(0, 0, "Read before."), passage(1, 10, "One. Two three?")]);
    expect(segments.map((each) => each.text)).toEqual(["Read before.", "One.", "Two three?", "And then."]);
    expect(segments.map((each) => each.start)).toEqual([0, 10, 11, 20]);
  });

  test("what has no words, or no spaces, is as it was written", () => {
    const bare: Passage = { ...passage(0, 0, ""), text: "Nothing but text", words: [] };
    const chinese: Passage = { ...passage(1, 10, "你好 世界"), text: "你好世界" };
    expect(grown([], [bare, chinese]).map((each) => each.text)).toEqual(["Nothing but text", "你好世界"]);
  });
});
