import { describe, expect, it } from "vitest";
import { destination } from "../src/lib/destination";

const HERE = "https://rushes.example";

describe("destination", () => {
  it("keeps paths of ours", () => {
    expect(destination("/watch/med_1?t=4#note", HERE)).toBe("/watch/med_1?t=4#note");
    expect(destination("/settings/tokens", HERE)).toBe("/settings/tokens");
  });

  it.each([
    null,
    "",
    "watch/1",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "https://evil.example/",
    "javascript:alert(1)",
    "/./ /evil\u0000",
    "/sign-in?to=/sign-in",
    "/.//evil.example",
  ])("leads nowhere else: %j", (to) => {
    expect(destination(to, HERE)).toBe("/");
  });
});
