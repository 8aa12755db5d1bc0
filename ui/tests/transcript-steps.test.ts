import { describe, expect, test } from "vitest";
import { compared, differences } from "../src/transcript/compare";
import type { Segment } from "../src/transcript/segments";
import { colourOf, nameOf, nextLabel } from "../src/transcript/speakers";
import { added, applied, blurred, changesOf, editsFor, NO_STEPS, reversed, wentBack, wentOn } from "../src/transcript/steps";
import { plainText } from "../src/transcript/files";
import { waitingFor } from "../src/transcript/waiting";

const segment = (id: string, text: string, speaker: string | null = null, start = 0): Segment => ({
  ...{ id, text, speaker, start, end: start + 1, words: [] },
});

describe("steps", () => {
  const segments = [segment("a", "one", "S0"), segment("b", "two")];

  test("back and on again, until something new is done", () => {
    const step = (from: number) => ({ changes: [], from, to: from + 1, exact: true });
    let steps = added(added(NO_STEPS, step(0)), step(1));
    steps = wentBack(steps);
    expect([steps.done.length, steps.undone.length]).toEqual([1, 1]);
    steps = wentOn(steps);
    expect(steps.done.at(-1)?.from).toBe(1);
    steps = added(wentBack(steps), step(5));
    expect([steps.done.map((each) => each.from), steps.undone]).toEqual([[0, 5], []]);
    expect(blurred(steps).done.every((each) => !each.exact)).toBe(true);
    expect(wentBack(NO_STEPS)).toBe(NO_STEPS);
  });

  test("changes can be made, and made undone", () => {
    const changes = changesOf(segments, [{ id: "a", text: "uno" }, { id: "b", speaker: "S1" }, { id: "gone", text: "x" }]);
    const after = applied(segments, changes);
    expect(after.map((each) => [each.text, each.speaker])).toEqual([["uno", "S0"], ["two", "S1"]]);
    expect(editsFor(reversed(changes), after)).toEqual([{ id: "a", text: "one" }, { id: "b", speaker: "" }]);
  });

  test("what somebody else has changed since is not undone", () => {
    const changes = changesOf(segments, [{ id: "a", text: "uno" }]);
    expect(editsFor(reversed(changes), [segment("a", "eins", "S0")])).toBeUndefined();
    expect(editsFor(reversed(changes), [])).toBeUndefined();
  });

  test("a removed passage is gone, and cannot be written back", () => {
    const changes = changesOf(segments, [{ id: "a", text: "" }]);
    const after = applied(segments, changes);
    expect(after.map((each) => each.id)).toEqual(["b"]);
    expect(editsFor(reversed(changes), after)).toBeUndefined();
  });
});

describe("comparing", () => {
  const told = (before: string, after: string) =>
    compared(before, after).map((each) => ({ same: "", removed: "-", added: "+" })[each.kind] + each.text);

  test.each([
    ["a b c", "a x c", ["a", "-b", "+x", "c"]],
    ["a b", "a b", ["a b"]],
    ["", "new", ["+new"]],
    ["old", "", ["-old"]],
    ["a b c d", "b c x d", ["-a", "b c", "+x", "d"]],
    ["a a", "a", ["a", "-a"]],
  ])("%s → %s", (before, after, expected) => expect(told(before, after)).toEqual(expected));

  test("very long texts are compared in no time", () => {
    const long = (seed: number) => Array.from({ length: 5000 }, (_, at) => `w${at * seed}`).join(" ");
    const begun = performance.now();
    compared(long(3), long(7));
    expect(performance.now() - begun).toBeLessThan(1000);
  });

  test("two transcripts, passage by passage, whatever their cuts are", () => {
    const mine = [segment("a", "Good morning.", null, 0), segment("b", "All well?", null, 5), segment("c", "Yes.", null, 9)];
    const theirs = [segment("x", "good morning", null, 0.2), segment("y", "All swell?", null, 5.1), segment("z", "Yes.", null, 9)];
    const found = differences(mine, theirs);
    expect(found).toEqual({ pairs: [{ start: 5, before: "All well?", after: "All swell?" }], of: 3 });
  });

  test("what only one of them has", () => {
    const found = differences([segment("a", "Hello", null, 0)], []);
    expect(found.pairs).toEqual([{ start: 0, before: "Hello", after: "" }]);
    expect(differences([], [])).toEqual({ pairs: [], of: 0 });
  });
});

test("speakers have names, colours and labels", () => {
  expect(nameOf("SPEAKER_01", {})).toBe("Speaker 2");
  expect(nameOf("SPEAKER_01", { SPEAKER_01: "Ada" })).toBe("Ada");
  expect(nameOf("Bob", {})).toBe("Bob");
  expect(colourOf("b", ["a", "b"])).toBe("var(--speaker-1)");
  expect(nextLabel([])).toBe("SPEAKER_00");
  expect(nextLabel(["SPEAKER_00", "Bob", "SPEAKER_07"])).toBe("SPEAKER_08");
});

test("the text to copy has a paragraph for each turn", () => {
  const segments = [segment("a", "Hi.", "S"), segment("b", "Well?", "S"), segment("c", "Yes."), segment("d", "Bye.", "S")];
  expect(plainText(segments, { S: "Ada" })).toBe("Ada: Hi. Well?\n\nYes.\n\nAda: Bye.");
});

test("why it waits", () => {
  const why = (reasons: { code: string; sentence: string }[], position: number | null = null) =>
    waitingFor({ id: "job", state: "queued", position, reasons, workers_that_could: [] });
  expect(why([])).toBe("It is next in line.");
  expect(why([{ code: "paused", sentence: "The queue is paused." }], 3)).toBe("Number 3 in line. The queue is paused.");
  expect(why([{ code: "parent", sentence: "It waits for job job_1, which is queued." }])).not.toContain("job_1");
});
