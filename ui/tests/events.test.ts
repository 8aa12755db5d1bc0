import { describe, expect, it } from "vitest";
import { isChosen, others, switched, withOthers } from "../src/settings/events";

describe("event types", () => {
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
    expect(others(["*", "media.*", "mykind.completed"])).toEqual(["mykind.completed"]);
    expect(withOthers(["media.*", "old.type"], "mykind.*, other.failed mykind.*")).toEqual([
      "media.*",
      "mykind.*",
      "other.failed",
    ]);
    expect(withOthers(["media.*", "old.type"], "")).toEqual(["media.*"]);
  });
});
