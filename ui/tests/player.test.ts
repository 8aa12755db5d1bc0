import { expect, test } from "vitest";
import { Taps } from "../src/player/awake.svelte";
import { isWorthKeeping, keepPosition, keepPreferences, momentOf, positionOf, readPreferences } from "../src/player/memory";
import { moved } from "../src/player/selection";
import { commandFor, nextRate, type Place } from "../src/player/shortcuts";
import { barsOf, peaksOf } from "../src/player/waveform";

class Store {
  constructor(private values: Record<string, string> = {}) {}
  getItem = (name: string) => this.values[name] ?? null;
  setItem = (name: string, value: string) => void (this.values[name] = value);
}

test("positions are remembered, but neither the first seconds nor the end", () => {
  expect(isWorthKeeping(3, 600)).toBe(false);
  expect(isWorthKeeping(300, 600)).toBe(true);
  expect(isWorthKeeping(575, 600)).toBe(false);
  expect(isWorthKeeping(51, 60)).toBe(false);
  expect(isWorthKeeping(51, Infinity)).toBe(true);
  const store = new Store();
  keepPosition(store, "a", 30.26, 600);
  keepPosition(store, "b", 40, 600);
  expect(positionOf(store, "a")).toBe(30.3);
  keepPosition(store, "a", 599, 600);
  expect(positionOf(store, "a")).toBeUndefined();
  expect(positionOf(store, "b")).toBe(40);
});

test("of very many positions the newest are kept", () => {
  const store = new Store();
  for (let each = 0; each < 400; each += 1) keepPosition(store, `m${each}`, 30, 600);
  expect(positionOf(store, "m399")).toBe(30);
  expect(positionOf(store, "m0")).toBeUndefined();
});

test("what was stored by something else does no harm", () => {
  expect(positionOf(new Store({ "rushes.positions": '{"a": 1}' }), "a")).toBeUndefined();
  expect(positionOf(new Store({ "rushes.positions": "not json" }), "a")).toBeUndefined();
  const odd = readPreferences(new Store({ "rushes.player": '{"volume": 7, "rate": "fast", "captions": 1, "captionSize": "huge"}' }));
  expect(odd).toEqual(readPreferences(new Store()));
  const store = new Store();
  keepPreferences(store, { ...odd, volume: 0.4, captions: true });
  expect(readPreferences(store)).toMatchObject({ volume: 0.4, captions: true });
});

test("a place that refuses to store is survived", () => {
  const full = { getItem: () => null, setItem: () => { throw new Error("full"); } };
  keepPosition(full, "a", 30, 600);
});

test("moments in addresses", () => {
  expect(momentOf("83.5")).toBe(83.5);
  expect(momentOf("1:23")).toBe(83);
  expect(momentOf("1:00:01.5")).toBe(3601.5);
  expect(momentOf("1h2m3s")).toBe(3723);
  expect(momentOf("90s")).toBe(90);
  for (const odd of [null, "", "abc", "-5", "1e9", "NaN"]) expect(momentOf(odd)).toBeUndefined();
});

const key = (key: string, more = {}) => ({ key, ctrlKey: false, metaKey: false, altKey: false, ...more });
const page: Place = { isTyping: false, isControl: false, isPlayer: true, isTrimming: false };

test("keys do what they say", () => {
  expect(commandFor(key("k"), page)).toEqual({ name: "toggle" });
  expect(commandFor(key("K"), page)).toEqual({ name: "toggle" });
  expect(commandFor(key("l"), page)).toEqual({ name: "skip", by: 10 });
  expect(commandFor(key("7"), page)).toEqual({ name: "jump", share: 0.7 });
  expect(commandFor(key(">"), page)).toEqual({ name: "rate", by: 1 });
  expect(commandFor(key("ArrowUp"), page)).toEqual({ name: "volume", by: 0.05 });
  expect(commandFor(key("q"), page)).toBeUndefined();
});

test("keys are left alone where they mean something else", () => {
  expect(commandFor(key("k"), { ...page, isTyping: true })).toBeUndefined();
  expect(commandFor(key("c", { ctrlKey: true }), page)).toBeUndefined();
  expect(commandFor(key("f", { metaKey: true }), page)).toBeUndefined();
  expect(commandFor(key(" "), { ...page, isControl: true })).toBeUndefined();
  expect(commandFor(key(" "), page)).toEqual({ name: "toggle" });
  expect(commandFor(key("Home"), { ...page, isPlayer: false })).toBeUndefined();
  expect(commandFor(key("m"), { ...page, isPlayer: false })).toEqual({ name: "mute" });
});

test("while trimming, i and o set the ends", () => {
  expect(commandFor(key("i"), page)).toEqual({ name: "pip" });
  expect(commandFor(key("i"), { ...page, isTrimming: true })).toEqual({ name: "in" });
  expect(commandFor(key("o"), { ...page, isTrimming: true })).toEqual({ name: "out" });
  expect(commandFor(key("o"), page)).toBeUndefined();
});

test("rates go step by step and end somewhere", () => {
  expect(nextRate(1, 1)).toBe(1.25);
  expect(nextRate(1, -1)).toBe(0.75);
  expect(nextRate(2, 1)).toBe(2);
  expect(nextRate(0.5, -1)).toBe(0.5);
  expect(nextRate(1.1, 1)).toBe(1.25);
});

test("the ends of a part stay inside and apart", () => {
  const part = { start: 2, end: 8 };
  expect(moved(part, { start: 3 }, 10)).toEqual({ start: 3, end: 8 });
  expect(moved(part, { start: 9 }, 10)).toEqual({ start: 9, end: 10 });
  expect(moved(part, { end: 1 }, 10)).toEqual({ start: 0, end: 1 });
  expect(moved(part, { end: 99 }, 10)).toEqual({ start: 2, end: 10 });
  expect(moved(part, { start: -4 }, 10)).toEqual({ start: 0, end: 8 });
  expect(moved(part, { start: 10 }, 10)).toEqual({ start: 9.9, end: 10 });
});

test("two taps at a side move, one in the middle plays", () => {
  const taps = new Taps();
  expect(taps.tell(0.1, 0, true)).toBe("bar");
  expect(taps.tell(0.1, 200, true)).toBe("back");
  expect(taps.tell(0.9, 1000, false)).toBe("bar");
  expect(taps.tell(0.9, 1900, false)).toBe("bar");
  expect(taps.tell(0.9, 2000, false)).toBe("forward");
  expect(taps.tell(0.5, 5000, true)).toBe("play");
  expect(taps.tell(0.5, 6000, false)).toBe("bar");
});

test("the waveform has as many bars as fit, the loudest of them full", () => {
  expect(barsOf([0.1, 0.2, 0.5, 0.25], 2)).toEqual([0.4, 1]);
  expect(barsOf([1], 3)).toEqual([1, 1, 1]);
  expect(barsOf([0.001, 0.001], 1)[0]).toBeLessThan(0.1);
  expect(barsOf([], 5)).toEqual([]);
  expect(peaksOf('{"version": 1, "seconds": 2, "peaks": [0.5, "x", 1]}')).toEqual([0.5, 1]);
  expect(peaksOf("nothing")).toEqual([]);
});
