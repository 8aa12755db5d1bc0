import { describe, expect, it } from "vitest";
import type { Worker } from "../src/lib/api";
import { changesOf, powerOf, restsUntil, settingNames, statusOf, textsOf, unusual, workersByKind } from "../src/workers/describe";

function worker(given: Partial<Worker>): Worker {
  return {
    id: "wrk_1",
    name: "attic",
    status: "idle",
    state: "enabled",
    kinds: [],
    capabilities: [],
    metadata: {},
    holds: 0,
    settings: {
      schedule: { value: "22:00-06:00", text: "22:00-06:00", said_by: "server" },
      nice: { value: 5, text: "5", said_by: "worker" },
      rest: { value: "finish", text: "finish", said_by: "default" },
    },
    resting_until: null,
    protocol: "1.1",
    upgrade: null,
    registered_at: "2026-05-04T10:00:00.000Z",
    last_seen_at: "2026-05-04T10:00:00.000Z",
    ...given,
  } as Worker;
}

describe("how a worker works", () => {
  it("says what is true first", () => {
    const until = "2026-05-04T22:00:00.000Z";
    expect(statusOf(worker({ resting_until: until }))).toBe("resting");
    expect(statusOf(worker({ resting_until: until, status: "busy" }))).toBe("busy");
    expect(statusOf(worker({ resting_until: until, state: "draining" }))).toBe("draining");
    expect(statusOf(worker({ upgrade: "too old", state: "draining" }))).toBe("upgrade");
    expect(statusOf(worker({ upgrade: "too old", status: "offline" }))).toBe("offline");
  });

  it("names the day of a rest that is long", () => {
    const now = Date.parse("2026-05-04T10:00:00.000Z");
    expect(restsUntil(worker({}), now)).toBe("");
    expect(restsUntil(worker({ resting_until: "2026-05-04T12:00:00.000Z" }), now)).not.toMatch(/[A-Z][a-z]{2} /);
    expect(restsUntil(worker({ resting_until: "2026-05-06T12:00:00.000Z" }), now)).toMatch(/^\p{L}{2,}/u);
  });

  it("counts a machine once, and workers only while they are there", () => {
    const inside = { place: "server", host: "vm", cores: 8, memory_bytes: 16 };
    const fleet = [
      worker({ id: "a", kinds: ["transcode"], metadata: inside }),
      worker({ id: "b", kinds: ["transcribe"], metadata: inside }),
      worker({ id: "c", kinds: ["transcode", "demo"], metadata: { host: "attic", cores: 4 }, status: "offline" }),
    ];
    expect(powerOf(fleet)).toEqual({ cores: 12, memory: 16 });
    expect(workersByKind(fleet)).toEqual([
      ["transcode", 1],
      ["transcribe", 1],
      ["demo", 0],
    ]);
  });

  it("offers for change only what an admin has said, and sends only what was changed", () => {
    const before = textsOf(worker({}));
    expect(before).toMatchObject({ schedule: "22:00-06:00", nice: "", rest: "" });
    expect(changesOf(before, { ...before })).toEqual({});
    expect(changesOf(before, { ...before, schedule: " ", nice: " 7 " })).toEqual({ schedule: null, nice: "7" });
  });

  it("leaves what is the whole server's out for workers inside it", () => {
    expect(settingNames(worker({ metadata: { place: "server" } }))).not.toContain("nice");
    expect(settingNames(worker({}))).toContain("nice");
  });

  it("tells what is not as usual, and who said it", () => {
    expect(unusual(worker({}))).toEqual(["Hours: 22:00-06:00 (set here)", "Nice level: 5"]);
  });
});
