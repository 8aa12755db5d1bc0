import { afterEach, describe, expect, it, vi } from "vitest";
import "./known-kinds";
import { api } from "../src/lib/api";
import { kinds } from "../src/lib/kinds.svelte";

afterEach(() => void vi.restoreAllMocks());

describe("kinds", () => {
  it("have labels, and go by their names where nobody has declared them", () => {
    expect(["composite", "acme.summarize", "only.a.worker.knows"].map((name) => kinds.label(name))).toEqual([
      "Overlay",
      "Summary",
      "only.a.worker.knows",
    ]);
    expect(kinds.startable.map((each) => each.name)).toEqual(["acme.summarize"]);
  });

  it("make what is watched, the transcript, or something of their own", () => {
    const names = ["transcode", "trim", "composite", "span", "transcribe", "acme.summarize", "unknown"];
    expect(names.filter((name) => kinds.makes(name, "watch"))).toEqual(["transcode", "trim", "composite"]);
    expect(names.filter((name) => kinds.makes(name, "transcript"))).toEqual(["transcribe"]);
  });

  it("are housekeeping only if they say so", () => {
    expect(kinds.housekeeping).toEqual(["prepare", "span", "purge", "webhook"]);
    expect(["purge", "acme.chapter", "unknown"].map((name) => kinds.isHousekeeping(name))).toEqual([true, false, false]);
  });

  it("are parts when others are divided into them", () => {
    expect(["span", "acme.chapter", "transcode", "unknown"].map((name) => kinds.isPart(name))).toEqual([true, true, false, false]);
  });

  it("tell events by a family, which may have another name", () => {
    expect(kinds.ofEvent("transcription.queued")?.name).toBe("transcribe");
    expect(kinds.ofEvent("acme.summary.failed")?.name).toBe("acme.summarize");
    expect(kinds.ofEvent("acme.chapter.failed")?.name).toBe("acme.chapter");
    expect(kinds.ofEvent("worker.online")).toBeUndefined();
    expect(kinds.families).toEqual(["transcode", "trim", "composite", "transcription", "import", "acme.summary", "acme.chapter"]);
  });

  it("are read once, and again if that failed", async () => {
    const items = [...kinds.items];
    const answers = [Promise.reject(new TypeError()), Promise.resolve({ data: { items }, response: new Response() })];
    const asked = vi.spyOn(api, "GET").mockImplementation((() => answers.shift()) as never);
    await expect(kinds.load()).rejects.toThrow();
    await Promise.all([kinds.load(), kinds.load()]);
    await kinds.load();
    expect(asked).toHaveBeenCalledTimes(2);
    expect(kinds.items).toEqual(items);
  });
});
