import { describe, expect, it } from "vitest";
import "./known-kinds";
import { families, isChosen, others, suggested, switched, withOthers } from "../src/settings/events";

describe("event types", () => {
  it("are those of media, of every kind that somebody waits for, of workers and alerts", () => {
    const names = families().map((each) => each.name);
    const ofJobs = ["transcode", "trim", "composite", "transcription", "import", "acme.summary", "acme.chapter"];
    expect(names).toEqual(["media", ...ofJobs, "worker", "alert"]);
    expect(suggested()).toEqual(["media.ready", ...ofJobs.map((name) => `${name}.failed`)]);
  });

  it("takes single ones into their family", () => {
    expect(switched(["media.ready", "trim.failed"], "media.*", true)).toEqual(["trim.failed", "media.*"]);
  });

  it("keeps progress beside a family, which does not include it", () => {
    const chosen = switched(["transcode.progress", "transcode.failed"], "transcode.*", true);
    expect(chosen).toEqual(["transcode.progress", "transcode.*"]);
    expect(isChosen(["transcode.*"], "transcode", "progress")).toBe(false);
    expect(isChosen(["transcode.*"], "transcode", "failed")).toBe(true);
  });

  it("switches off", () => {
    expect(switched(["media.ready", "media.created"], "media.ready", false)).toEqual(["media.created"]);
    expect(isChosen([], "media", "ready")).toBe(false);
  });

  it("keeps types that have no box", () => {
    expect(others(["*", "media.*", "acme.summary.*", "acme.chapter.failed", "mykind.completed"])).toEqual(["mykind.completed"]);
    expect(withOthers(["media.*", "old.type"], "mykind.*, other.failed mykind.*")).toEqual([
      "media.*",
      "mykind.*",
      "other.failed",
    ]);
    expect(withOthers(["media.*", "old.type"], "")).toEqual(["media.*"]);
  });
});
