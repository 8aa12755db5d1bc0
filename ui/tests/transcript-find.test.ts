import { describe, expect, test } from "vitest";
import { findAll, firstFrom, folded, marksOf, oneLine, replaced } from "../src/transcript/find";
import type { Segment } from "../src/transcript/segments";

const segments = (...texts: string[]): Segment[] =>
  texts.map((text, at) => ({ id: `seg_${at}`, start: at, end: at + 1, speaker: null, text, words: [] }));
const ANY = { matchCase: false, wholeWords: false };

function found(query: string, texts: string[], options = ANY): string[] {
  const all = segments(...texts);
  return findAll(all, query, options).map((each) => `${each.segment}:${all[each.segment]!.text.slice(each.start, each.end)}`);
}

describe("finding", () => {
  test("case and accents do not matter, unless they are to", () => {
    expect(found("cafe", ["A Café", "CAFE\u0301s", "cave"])).toEqual(["0:Café", "1:CAFE\u0301"]);
    expect(found("Cafe", ["a cafe", "Cafe"], { ...ANY, matchCase: true })).toEqual(["1:Cafe"]);
  });

  test("letters that become longer or shorter do not move what is behind them", () => {
    expect(found("bus", ["İİ ﬁn Bus", "Straße 😀 bus"])).toEqual(["0:Bus", "1:bus"]);
  });

  test("several in a segment, none over another", () => {
    expect(found("aa", ["aaaa a"])).toEqual(["0:aa", "0:aa"]);
  });

  test("whole words only", () => {
    expect(found("cat", ["cat, concatenate (cat)"], { ...ANY, wholeWords: true })).toEqual(["0:cat", "0:cat"]);
  });

  test("nothing is looked for when nothing was written", () => {
    expect(found("", ["a"])).toEqual([]);
    expect(found("  ", ["a  b"])).toEqual([]);
  });

  test("signs that mean something elsewhere mean themselves", () => {
    expect(found("a.b(", ["a.b( axb("])).toEqual(["0:a.b("]);
  });

  test("the way back is true for every place", () => {
    const { text, places } = folded("Éa\u0308ﬁ");
    expect(text).toBe("eaﬁ");
    expect(places).toEqual([0, 1, 3, 4]);
  });
});

test("marks are counted over all segments", () => {
  const all = segments("a b a", "c", "a");
  const marks = marksOf(all, findAll(all, "a", ANY));
  expect(marks.get("seg_0")?.map((each) => each.number)).toEqual([0, 1]);
  expect(marks.get("seg_1")).toBeUndefined();
  expect(marks.get("seg_2")).toEqual([{ start: 0, end: 1, number: 2 }]);
});

test("the first hit behind a segment, and around the end", () => {
  const hits = findAll(segments("a", "b", "a"), "a", ANY);
  expect([firstFrom(hits, 0), firstFrom(hits, 1), firstFrom(hits, 3)]).toEqual([0, 1, 0]);
});

describe("replacing", () => {
  test("every hit, and only the segments that change", () => {
    const all = segments("A cat and a cat", "dog", "Cat.");
    expect(replaced(all, findAll(all, "cat", ANY), "dog")).toEqual([
      { id: "seg_0", text: "A dog and a dog" },
      { id: "seg_2", text: "dog." },
    ]);
  });

  test("what stays the same is no change", () => {
    const all = segments("Ada said");
    expect(replaced(all, findAll(all, "ada", ANY), "Ada")).toEqual([]);
  });

  test("it is one line, as the server keeps it", () => {
    const all = segments("um hello um");
    expect(replaced(all, findAll(all, "um", ANY), "")).toEqual([{ id: "seg_0", text: "hello" }]);
    expect(oneLine(" a\n b\t ")).toBe("a b");
  });
});
