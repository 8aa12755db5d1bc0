import { describe, expect, it } from "vitest";
import "./known-kinds";
import type { Execution, Job, Worker } from "../src/lib/api";
import { durationOf, isMoving, leaseLeft, needOf, progressOf, stateOf, tookOf, whenOf } from "../src/queue/describe";
import { bucketText, bucketTimes, failuresText, mean, throughputText, timesText, type Bucket } from "../src/queue/history";
import { forPeople, kept, LineReader, MOST_LINES } from "../src/queue/lines";
import { isHousekeeper, isLocal, machineOf, sorted, statusOf } from "../src/workers/describe";

const NOW = Date.parse("2026-11-16T12:00:00Z");
const at = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();
const job = (more: Partial<Job>): Job =>
  ({ id: "job_1", state: "queued", progress: 0, completed_at: null, failed_at: null, canceled_at: null, run_at: null, ...more }) as Job;

describe("a job in words", () => {
  it("says how long it waits, runs, or took", () => {
    expect(whenOf(job({ queued_at: at(-130) }), NOW)).toBe("waiting for 2 min");
    expect(whenOf(job({ queued_at: at(-5), run_at: at(42) }), NOW)).toBe("starts in 42 s");
    expect(whenOf(job({ state: "processing", claimed_at: at(-30), started_at: at(-400) }), NOW)).toBe("running for 30 s");
    expect(whenOf(job({ state: "completed", started_at: at(-90), completed_at: at(-60) }), NOW)).toBe("1 min ago");
    expect(tookOf(job({ state: "completed", started_at: at(-90), completed_at: at(-60) }))).toBe("took 30 s");
    expect(tookOf(job({ state: "failed", started_at: at(-90) }))).toBe("");
    expect(whenOf(job({ state: "failed", started_at: at(-90), failed_at: at(-60) }), NOW)).toBe("1 min ago");
  });

  it("says how far it is", () => {
    expect(progressOf(job({ progress: 0.429, speed: 3.14, eta_seconds: 125 }))).toBe("42 % · 3.1× · 2 min left");
    expect(progressOf(job({ progress: 0.999 }))).toBe("99 %");
    expect(isMoving(job({ state: "blocked", divided_at: at(0) }))).toBe(true);
    expect(isMoving(job({ state: "blocked" }))).toBe(false);
  });

  it("counts the lease down, never below nothing", () => {
    expect(leaseLeft(job({ state: "processing", claim_expires_at: at(42.2) }), NOW)).toBe(43);
    expect(leaseLeft(job({ state: "processing", claim_expires_at: at(-3) }), NOW)).toBe(0);
    expect(leaseLeft(job({ claim_expires_at: at(42) }), NOW)).toBeUndefined();
  });

  it("says that it is being stopped", () => {
    expect(stateOf(job({ state: "processing", cancel_requested_at: at(0) }))).toBe("Stopping…");
    expect(stateOf(job({ state: "other" }))).toBe("other");
  });

  it("tells wishes from needs, and how long a try took", () => {
    expect([needOf("gpu"), needOf("nvenc?")]).toEqual(["gpu", "nvenc (if there is one)"]);
    const tried = { started_at: at(-60), ended_at: at(-20) } as Execution;
    expect(durationOf(tried, NOW)).toBe("took 40 s");
    expect(durationOf({ ...tried, ended_at: null }, NOW)).toBe("for 1 min");
  });
});

describe("history in words", () => {
  const bucket = (completed: number, failed = 0, wait: number | null = null, run: number | null = null): Bucket => ({
    at: at(0),
    completed,
    failed,
    canceled: 0,
    wait_seconds: wait,
    run_seconds: run,
  });
  const history = { bucket_seconds: 60, items: [bucket(1, 0, 10, 100), bucket(3, 0, 30, 20), bucket(0)] };

  it("sums up", () => {
    expect(throughputText({ ...history, items: [bucket(1)] }, 1)).toBe("1 job done in the last hour");
    expect(throughputText(history, 1)).toMatch(/^4 jobs done in the last hour; most at .+: 3$/);
    expect(throughputText({ ...history, items: [bucket(0)] }, 6)).toBe("0 jobs done in the last 6 hours");
    expect(failuresText(history, 24)).toBe("Nothing failed in the last 24 hours");
    expect(failuresText({ ...history, items: [bucket(0, 2)] }, 168)).toBe("2 failed, 0 canceled in the last 7 days");
    expect(timesText(history, 1)).toBe("25 s waiting, 40 s running on average");
    expect(timesText({ ...history, items: [bucket(0)] }, 1)).toBe("Nothing finished in the last hour");
    expect(mean([], "wait_seconds")).toBeNull();
  });

  it("tells one moment", () => {
    expect(bucketText(bucket(3, 1), 1, ["completed", "failed"])).toMatch(/: 3 done, 1 failed$/);
    expect(bucketText(bucket(0), 1, ["completed"])).toMatch(/: nothing$/);
    expect(bucketTimes(bucket(1, 0, 5, null), 1)).toMatch(/: waiting 5 s$/);
  });
});

describe("a log", () => {
  it("is read line by line, however it was cut", () => {
    const reader = new LineReader();
    expect(reader.push("one\ntw")).toEqual(["one"]);
    expect(reader.push("o\n")).toEqual(["two"]);
  });

  it("keeps the newest lines", () => {
    const many = Array.from({ length: MOST_LINES }, (_, n) => String(n));
    expect(kept(many, ["last"]).at(0)).toBe("1");
    expect(kept(many, ["last"]).length).toBe(MOST_LINES);
  });

  it("shows the time of day, and what is no time as it is", () => {
    expect(forPeople("2026-11-16T10:20:30.123Z frame 1").text).toBe("frame 1");
    expect(forPeople("no time here")).toEqual({ time: "", text: "no time here" });
    expect(forPeople("")).toEqual({ time: "", text: "" });
  });
});

describe("workers", () => {
  const worker = (name: string, status: string, more: Partial<Worker> = {}): Worker =>
    ({ id: name, name, status, state: "enabled", metadata: {}, ...more }) as Worker;

  it("stand by what they do, and keep their places while they work", () => {
    const all = [worker("d", "disabled"), worker("c", "idle"), worker("b", "busy"), worker("a", "offline")];
    expect(sorted(all).map((each) => each.name)).toEqual(["b", "c", "a", "d"]);
    expect(sorted([worker("c", "busy"), worker("b", "idle")]).map((each) => each.name)).toEqual(["b", "c"]);
  });

  it("are draining only while they are there", () => {
    expect(statusOf(worker("a", "busy", { state: "draining" }))).toBe("draining");
    expect(statusOf(worker("a", "offline", { state: "draining" }))).toBe("offline");
  });

  it("are for housekeeping if they are the server's own and do nothing else", () => {
    const inside = (...kinds: string[]) => worker("w", "idle", { kinds, metadata: { place: "server" } });
    expect([inside("webhook"), inside("purge", "webhook"), inside("import")].map(isHousekeeper)).toEqual([true, true, true]);
    expect([inside("acme.summarize"), inside("span", "trim"), inside()].map(isHousekeeper)).toEqual([false, false, false]);
    expect(isHousekeeper(worker("w", "idle", { kinds: ["webhook"] }))).toBe(false);
  });

  it("tell of their machine what they have said of it", () => {
    const metadata = { host: "attic", version: "1.2", cores: 8, memory_bytes: 16e9, platform: { odd: true } };
    expect(machineOf(worker("w", "idle", { metadata }))).toBe("attic · Rushes 1.2 · 8 cores · 16.0 GB memory");
    expect(machineOf(worker("w", "idle"))).toBe("");
  });

  it("cannot be invited to an address that only one machine knows", () => {
    expect(isLocal("rushes worker --server http://127.0.0.1:8484 --join X")).toBe(true);
    expect(isLocal("rushes worker --server https://rushes.example.org --join X")).toBe(false);
    expect(isLocal("something else")).toBe(false);
  });
});
