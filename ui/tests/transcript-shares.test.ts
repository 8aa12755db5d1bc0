import { expect, test } from "vitest";
import type { Segment } from "../src/transcript/segments";
import { nextOf, sharesOf } from "../src/transcript/shares";

const said = (speaker: string | null, start: number, end: number, more: Partial<Segment> = {}): Segment => ({
  ...{ id: `${start}`, text: "", words: [] },
  ...{ speaker, start, end, ...more },
});

test("who talks how much, and when", () => {
  const shares = sharesOf([said("A", 0, 2), said("B", 2, 8), said("A", 8, 9), said(null, 9, 20), said("A", 9.5, 10.5)]);
  expect(shares.map(({ label, seconds, share }) => [label, seconds, share])).toEqual([
    ["B", 6, 0.6],
    ["A", 4, 0.4],
  ]);
  expect(shares[1]!.spans).toEqual([
    [0, 2],
    [8, 10.5],
  ]);
});

test("somebody's turn ends when another one speaks, however briefly", () => {
  const [first] = sharesOf([said("A", 0, 2), said("B", 2, 2.5), said("A", 2.5, 4)]);
  expect(first!.spans).toEqual([
    [0, 2],
    [2.5, 4],
  ]);
});

test("a text without speakers or times has no shares", () => {
  expect(sharesOf([])).toEqual([]);
  expect(sharesOf([said(null, 0, 5), said("A", 3, 3), said("A", 0, 4, { bare: true })])).toEqual([]);
});

test("what somebody says next, and their first words after the last", () => {
  const [only] = sharesOf([said("A", 1, 2), said("B", 2, 3), said("A", 10, 12)]);
  expect([nextOf(only!, 0), nextOf(only!, 0 - 2), nextOf(only!, 5), nextOf(only!, 10), nextOf(only!, 30)]).toEqual([10, 1, 10, 1, 1]);
});
