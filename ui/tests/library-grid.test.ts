import { describe, expect, it } from "vitest";
import { around, reveal, rowsOf, shape, step, TEXT_HEIGHT } from "../src/library/grid";

describe("shape", () => {
  it("has two columns on a phone and more on a desk", () => {
    expect(shape(366).columns).toBe(2);
    expect(shape(1240).columns).toBe(4);
    expect(shape(0).columns).toBe(1);
  });

  it("fills the width to the last pixel", () => {
    for (const width of [320, 701, 1240, 1760]) {
      const { columns, cardWidth, gap } = shape(width);
      expect(columns * cardWidth + (columns - 1) * gap).toBeCloseTo(width);
    }
  });

  it("is one row for each in a list", () => {
    const form = shape(1240, "list");
    expect([form.columns, form.gap]).toEqual([1, 0]);
    expect(around(10_000, form, 300_000, 800).end - around(10_000, form, 300_000, 800).first).toBeLessThan(60);
  });

  it("knows a row's height before anything is drawn", () => {
    const { cardWidth, rowHeight, gap } = shape(1240);
    expect(rowHeight).toBe(Math.round((cardWidth * 9) / 16) + TEXT_HEIGHT + gap);
  });
});

describe("around", () => {
  const form = { columns: 4, cardWidth: 295, rowHeight: 250, gap: 20 };

  it("draws little of much", () => {
    const seen = around(10_000, form, 100_000, 800);
    expect(seen.height).toBe(2500 * 250);
    expect(seen.end - seen.first).toBeLessThan(60);
    expect(seen.offset).toBeLessThanOrEqual(100_000);
    expect(seen.first).toBe((seen.offset / 250) * 4);
    expect(Math.ceil(seen.end / 4) * 250).toBeGreaterThanOrEqual(100_800);
  });

  it("stays within what is there", () => {
    expect(around(0, form, 0, 800)).toEqual({ first: 0, end: 0, offset: 0, height: 0 });
    expect(around(5, form, -300, 800)).toMatchObject({ first: 0, end: 5, offset: 0 });
    const past = around(10, form, 1_000_000, 800);
    expect(past.first).toBeLessThanOrEqual(12);
    expect(past.end).toBeLessThanOrEqual(10);
  });

  it("covers every item once while scrolling", () => {
    const seen = new Set<number>();
    for (let top = 0; top < rowsOf(101, 4) * 250; top += 700) {
      const { first, end } = around(101, form, top, 800);
      for (let at = first; at < end; at++) seen.add(at);
    }
    expect(seen.size).toBe(101);
  });
});

describe("step", () => {
  it.each([
    ["ArrowRight", 0, 1],
    ["ArrowRight", 9, 9],
    ["ArrowLeft", 0, 0],
    ["ArrowDown", 1, 5],
    ["ArrowDown", 7, 9],
    ["ArrowDown", 8, 8],
    ["ArrowUp", 5, 1],
    ["ArrowUp", 2, 2],
    ["Home", 7, 0],
    ["End", 2, 9],
  ])("%s from %i leads to %i", (key, from, to) => expect(step(key, from, 10, 4)).toBe(to));

  it("knows no other keys", () => expect(step("x", 1, 10, 4)).toBeUndefined());
});

describe("reveal", () => {
  const form = { columns: 2, cardWidth: 1, rowHeight: 100, gap: 20 };

  it("scrolls as little as needed", () => {
    expect(reveal(4, form, 0, 500)).toBe(0);
    expect(reveal(0, form, 150, 500)).toBe(-150);
    expect(reveal(12, form, 0, 500)).toBe(180);
  });
});
