import { describe, expect, it } from "vitest";
import type { Moment } from "../src/lib/api";
import { day } from "../src/lib/format";
import { grouped, pieces, watchAt } from "../src/library/moments";

function moment(media_id: string, start: number, facts: Partial<Moment> = {}): Moment {
  const plain = { title: "Title", kind: "speech", segment_id: `seg_${start}`, end: start + 1, speaker: null, snippet: "words", marks: [], html: "" };
  return { ...plain, media_id, start, ...facts } as Moment;
}

describe("pieces", () => {
  it("cuts at the marks", () => {
    expect(pieces("the quick fox", [[4, 9]])).toEqual([
      { text: "the ", marked: false },
      { text: "quick", marked: true },
      { text: " fox", marked: false },
    ]);
  });

  it("counts characters, not halves of them", () => {
    expect(pieces("😀😀 fox", [[3, 6]]).find((each) => each.marked)?.text).toBe("fox");
  });

  it("survives marks that make no sense", () => {
    const all = pieces("abc", [[2, 99], [0, 1], [1, 1], [0, 3]]);
    expect(all.map((each) => each.text).join("")).toBe("abc");
    expect(pieces("", [[0, 3]])).toEqual([]);
  });
});

describe("grouped", () => {
  it("keeps the order in which media were found, and that of time within each", () => {
    const found = grouped([moment("b", 9), moment("a", 1), moment("b", 2)]);
    expect(found.map((each) => each.mediaId)).toEqual(["b", "a"]);
    expect(found[0]!.moments.map((each) => each.start)).toEqual([2, 9]);
  });

  it("marks a title that was found", () => {
    const [only] = grouped([moment("a", 0, { kind: "title", segment_id: null, snippet: "A fox", marks: [[2, 5]] })]);
    expect(only!.moments).toEqual([]);
    expect(only!.title.at(-1)).toEqual({ text: "fox", marked: true });
  });
});

it("leads to the second", () => expect(watchAt("med_1", 12.3456)).toBe("/watch/med_1?t=12.3"));

it("says the year when it is another one", () => {
  const now = new Date("2026-11-16T12:00:00Z");
  expect(day("2026-03-05T12:00:00Z", now)).not.toContain("2026");
  expect(day("2025-03-05T12:00:00Z", now)).toContain("2025");
  expect(day(null, now)).toBe("");
});
