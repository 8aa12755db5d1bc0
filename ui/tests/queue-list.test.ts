import { describe, expect, it } from "vitest";
import "./known-kinds";
import type { Job, QueueStats } from "../src/lib/api";
import { addressOf, fromAddress, isFiltered, NO_FILTERS, toAddress, toBulk, toList } from "../src/queue/filters";
import { relatives } from "../src/queue/relatives";
import { counts, merged, neighbour, retriedBy, runningFirst } from "../src/queue/rows";

const job = (id: string, more: Partial<Job> = {}): Job => ({ id, kind: "transcode", state: "queued", ...more }) as Job;
const ids = (jobs: Job[]): string => jobs.map((each) => each.id).join(" ");

describe("filters", () => {
  it("come back from the address as they were put into it", () => {
    const filters = { ...NO_FILTERS, state: "failed", kind: "trim", q: "a & b?", error: "x", housekeeping: true };
    expect(fromAddress(new URLSearchParams(addressOf(filters)))).toEqual(filters);
    expect(addressOf(NO_FILTERS)).toBe("");
    expect(toAddress(NO_FILTERS)["all"]).toBe("");
  });

  it("leave out a state that there is not", () => {
    expect(fromAddress(new URLSearchParams("state=lost")).state).toBe("");
  });

  it("hide housekeeping unless it is asked for", () => {
    expect(toList(NO_FILTERS)).toEqual({ not_kind: "prepare,span,purge,webhook" });
    expect(toBulk(NO_FILTERS)).toEqual({ not_kinds: ["prepare", "span", "purge", "webhook"] });
    expect(toList({ ...NO_FILTERS, housekeeping: true })).toEqual({});
    expect(toList({ ...NO_FILTERS, kind: "span" })).toEqual({ kind: "span" });
    expect(isFiltered({ ...NO_FILTERS, housekeeping: true })).toBe(false);
  });

  it("use the server's names", () => {
    const filters = { ...NO_FILTERS, user: "usr_1", worker: "wrk_1", error: "e", media: "med_1", q: "x", housekeeping: true };
    const wanted = { user_id: "usr_1", worker_id: "wrk_1", error_code: "e", media_id: "med_1", q: "x" };
    expect(toList(filters)).toEqual(wanted);
    expect(toBulk(filters)).toEqual(wanted);
  });
});

describe("a list that changes", () => {
  const rows = ["9", "8", "7", "5", "3"].map((id) => job(id));
  const page = (isComplete: boolean, ...items: Job[]) => ({ items, isComplete });

  it("shows first what runs, also in parts", () => {
    const mixed = [job("9"), job("8", { state: "processing" }), job("7"), job("6", { state: "blocked", divided_at: "2026-01-01T00:00:00Z" })];
    expect(ids(runningFirst(mixed))).toBe("8 6 9 7");
    const first = page(false, job("3", { state: "processing" }), job("9"), job("8"));
    expect(ids(merged([job("9"), job("8"), job("7"), job("3")], first, false).rows)).toBe("3 9 8 7");
  });

  it("takes new jobs to the top and drops those that fit no more", () => {
    const { rows: next, held } = merged(rows, page(false, job("a"), job("9", { state: "processing" }), job("7")), false);
    expect(ids(next)).toBe("a 9 7 5 3");
    expect(next[1]!.state).toBe("processing");
    expect(held).toEqual([]);
  });

  it("is only what the first page says when there is no other", () => {
    expect(ids(merged(rows, page(true, job("9")), false).rows)).toBe("9");
    expect(merged(rows, page(true), false).rows).toEqual([]);
  });

  it("does not move while somebody reads", () => {
    const { rows: next, held } = merged(rows, page(false, job("b"), job("a"), job("9", { state: "failed" })), true);
    expect(ids(next)).toBe("9 8 7 5 3");
    expect(next[0]!.state).toBe("failed");
    expect(ids(held)).toBe("b a");
  });

  it("knows neighbours", () => {
    expect(neighbour(rows, undefined, 1)?.id).toBe("9");
    expect(neighbour(rows, "9", 1)?.id).toBe("8");
    expect(neighbour(rows, "9", -1)).toBeUndefined();
    expect(neighbour(rows, "3", 1)).toBeUndefined();
  });

  it("knows what was retried, by the newest", () => {
    expect(retriedBy([job("9", { retry_of: "5" }), job("8", { retry_of: "5" })]).get("5")).toBe("9");
  });

  it("counts what is shown", () => {
    const stats = { kinds: { transcode: { queued: 2, failed: 1 }, "acme.summarize": { queued: 1 }, span: { queued: 40 } } } as unknown as QueueStats;
    expect(counts(stats, NO_FILTERS)).toEqual({ queued: 3, failed: 1 });
    expect(counts(stats, { kind: "", housekeeping: true })["queued"]).toBe(43);
    expect(counts(stats, { kind: "span", housekeeping: false })).toEqual({ queued: 40 });
    expect(counts(null, NO_FILTERS)).toEqual({});
  });
});

describe("relatives", () => {
  it("are what it waits for, its parts, and what took its place", () => {
    const others = [
      job("r", { retry_of: "m" }),
      job("s2", { kind: "span", parent_id: "m" }),
      job("s1", { kind: "span", parent_id: "m" }),
      job("t", { kind: "transcribe", parent_id: "m" }),
      job("p"),
      job("x"),
    ];
    const found = relatives(job("m", { parent_id: "p", retry_of: "gone" }), others);
    expect(found.map((group) => [group.label, group.items.map((each) => each.id).join(" ")])).toEqual([
      ["Waits for", "p"],
      ["Replaces", "gone"],
      ["Retried as", "r"],
      ["Parts", "s1 s2"],
      ["Waiting for it", "t"],
    ]);
    expect(relatives(job("m", { parent_id: null, retry_of: null }), [])).toEqual([]);
    expect(relatives(job("s1", { kind: "span", parent_id: "m" }), [])[0]?.label).toBe("Part of");
  });

  it("are parts of other people's kinds, too", () => {
    const whole = job("m", { kind: "acme.summarize", parent_id: null, retry_of: null });
    const part = job("c", { kind: "acme.chapter", parent_id: "m" });
    expect(relatives(whole, [part]).map((group) => group.label)).toEqual(["Parts"]);
    expect(relatives(part, [whole]).map((group) => group.label)).toEqual(["Part of"]);
  });
});
