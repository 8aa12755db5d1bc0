import { describe, expect, it } from "vitest";
import { matching } from "../src/palette/matching";
import { localOf, momentOf } from "../src/watch/dates";

describe("matching", () => {
  const all = ["Library", "Settings: Users", "Upload files", "Upload a folder", "Sign out"].map((text) => ({ text, ...(text === "Sign out" ? { also: "log out" } : {}) }));
  const texts = (said: string) => matching(all, said).map((each) => each.text);

  it("finds beginnings of words in any order", () => {
    expect(texts("up fo")).toEqual(["Upload a folder"]);
    expect(texts("users sett")).toEqual(["Settings: Users"]);
    expect(texts("LOG")).toEqual(["Sign out"]);
    expect(texts("")).toHaveLength(5);
    expect(texts("(.*")).toEqual([]);
  });

  it("puts names that begin so first", () => {
    expect(texts("up")).toEqual(["Upload files", "Upload a folder"]);
  });
});

describe("dates of a form", () => {
  it("come back as they were", () => {
    for (const at of ["2024-07-01T18:30:00.000Z", "1962-01-02T03:04:00.000Z"]) expect(momentOf(localOf(at))).toBe(at);
    expect([localOf(null), localOf("nonsense"), momentOf(""), momentOf("31.12.")]).toEqual(["", "", null, null]);
  });
});
