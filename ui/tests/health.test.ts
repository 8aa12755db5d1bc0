import { describe, expect, it } from "vitest";
import { checksOf, isWell, type Answers } from "../src/settings/health";

const GB = 1_000_000_000;
const well: Answers = {
  ready: { status: "ok", database: true, storage: true, sweep: true, events: true, threads: true, accepting: true },
  health: { status: "ok", database: true, redis: null, active_workers: 1, pending_jobs: 0 },
  details: {
    status: "ok",
    database: { ok: true, kind: "sqlite" },
    storage: { ok: true, free_bytes: 100 * GB, total_bytes: 500 * GB },
    processing: { jobs: { blocked: 0, queued: 0, processing: 0 }, workers: { idle: 1, busy: 0, offline: 0 }, incidents: {} },
  },
  minFreeBytes: GB,
};

const toneOf = (answers: Answers, id: string) => checksOf(answers).find((each) => each.id === id)?.tone;
const withDetails = (details: Partial<Answers["details"]>): Answers => ({ ...well, details: { ...well.details, ...details } });

describe("health", () => {
  it("is well", () => {
    expect(isWell(checksOf(well))).toBe(true);
    expect(checksOf(well).map((each) => each.todo)).toEqual(new Array(6).fill(undefined));
  });

  it("warns before uploads are refused, and when they are", () => {
    const free = (free_bytes: number | null) => withDetails({ storage: { ok: true, free_bytes, total_bytes: null } });
    expect(toneOf(free(null), "storage")).toBe("good");
    expect(toneOf(free(2 * GB), "storage")).toBe("wait");
    expect(toneOf(free(GB), "storage")).toBe("bad");
    expect(toneOf({ ...free(1), minFreeBytes: 0 }, "storage")).toBe("good");
  });

  it("says when nobody looks after lost jobs", () => {
    const [server] = checksOf({ ...well, ready: { ...well.ready, sweep: false } });
    expect([server!.id, server!.tone]).toEqual(["server", "bad"]);
  });

  it("says what to do about everything that is wrong", () => {
    const ill: Answers = {
      ready: { ...well.ready, accepting: false },
      health: { ...well.health, redis: false },
      details: {
        status: "degraded",
        database: { ok: false, kind: "postgresql" },
        storage: { ok: false, free_bytes: null, total_bytes: null },
        processing: { jobs: {}, workers: { offline: 3 }, incidents: {} },
      },
      minFreeBytes: GB,
    };
    const wrong = checksOf(ill).filter((each) => each.tone === "bad" || each.tone === "wait");
    expect(wrong.map((each) => each.id)).toEqual(["server", "database", "storage", "workers", "redis"]);
    expect(wrong.every((each) => each.todo)).toBe(true);
    expect(isWell(checksOf(ill))).toBe(false);
  });

  it("does not blame the workers while the database is away", () => {
    expect(toneOf(withDetails({ processing: null }), "workers")).toBe("plain");
    expect(toneOf(withDetails({ processing: null }), "queue")).toBe("plain");
  });
});
