import { describe, expect, it } from "vitest";
import type { Profile } from "../src/lib/api";
import { anotherRung, draftOf, freeName, missing, moved, placeOf, settingsOf } from "../src/settings/profile";

const profile: Profile = {
  name: "talks",
  ladder: [
    { height: 1080, bitrate: 5000 },
    { height: 720, bitrate: 2500 },
  ],
  codecs: ["h264"],
  preset: "veryfast",
  crf: 23,
  segment_seconds: 4,
  audio_bitrate: 128,
  original: true,
  original_bitrate: null,
  keep_original: false,
  encoder: "auto",
  divide_after: 600,
  span_seconds: 60,
  created_at: null,
  updated_at: null,
};

describe("profile", () => {
  it("comes back as it was", () => {
    const { name: _, created_at: _created, updated_at: _updated, ...settings } = profile;
    expect(settingsOf(draftOf(profile))).toEqual(settings);
  });

  it("names codecs in one order", () => {
    const draft = { ...draftOf(profile), codecs: ["av1", "h264"] };
    expect(settingsOf(draft).codecs).toEqual(["h264", "av1"]);
  });

  it("says what is empty", () => {
    const draft = draftOf(profile);
    draft.crf = null;
    draft.ladder[1]!.bitrate = null;
    expect(missing(draft).map((each) => each.field)).toEqual(["crf", "ladder.1.bitrate"]);
    expect(missing(draftOf(profile))).toEqual([]);
  });

  it("finds the place of rules between fields", () => {
    expect(placeOf({ field: "profile", message: "Ladder must not name a height twice." }).field).toBe("ladder");
    expect(placeOf({ field: "profile", message: "Codecs must contain h264." }).field).toBe("codecs");
    expect(placeOf({ field: "profile", message: "Invalid enum value 'x' - at `$.preset`." }).field).toBe("preset");
    expect(placeOf({ field: "profile", message: "Odd." }).field).toBe("profile");
    expect(placeOf({ field: "crf", message: "Odd." }).field).toBe("crf");
  });

  it("offers the next smaller size, then what is missing above", () => {
    const { ladder } = draftOf(profile);
    expect(anotherRung(ladder)).toMatchObject({ height: 480, bitrate: 1000 });
    const small = draftOf({ ...profile, ladder: [{ height: 144, bitrate: 100 }] }).ladder;
    expect(anotherRung(small).height).toBe(2160);
    expect(anotherRung([])).toMatchObject({ height: 2160 });
  });

  it("moves rows and stays within the list", () => {
    expect(moved(["a", "b", "c"], 0, 2)).toEqual(["b", "c", "a"]);
    expect(moved(["a", "b", "c"], 2, 1)).toEqual(["a", "c", "b"]);
    expect(moved(["a", "b"], 0, -1)).toEqual(["a", "b"]);
  });

  it("finds a free name", () => {
    expect(freeName("x-copy", ["x"])).toBe("x-copy");
    expect(freeName("x-copy", ["x", "x-copy", "x-copy-2"])).toBe("x-copy-3");
  });
});
