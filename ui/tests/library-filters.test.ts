import { describe, expect, it } from "vitest";
import type { Media } from "../src/lib/api";
import { addressOf, compare, filterOf, fits, placed, queryOf, questions, released, type Filter } from "../src/library/filters";
import { savedOf } from "../src/library/saved";

const ALL: Filter = { shown: "all", kind: "all", sort: "newest", origin: "library", tag: "", collection: "" };
const SILENT = { status: "", kind: "", sort: "", origin: "", tag: "", collection: "" };

function media(id: string, facts: Partial<Media> = {}): Media {
  return { id, title: id, kind: "video", status: "ready", transcript_status: "none", duration: 1, size_bytes: 1, ...facts } as Media;
}

const ids = (items: Media[]) => items.map((each) => each.id).join("");

describe("the address", () => {
  it("says only what differs", () => {
    expect(queryOf(ALL)).toEqual(SILENT);
    expect(queryOf({ ...ALL, shown: "failed", kind: "audio", sort: "title" })).toEqual({ ...SILENT, status: "failed", kind: "audio", sort: "title" });
    expect(queryOf({ ...ALL, origin: "api", tag: "<b>" })).toEqual({ ...SILENT, origin: "api", tag: "<b>" });
    expect(addressOf(queryOf({ ...ALL, tag: "a & b" }))).toBe("/?tag=a+%26+b");
    expect(addressOf(queryOf(ALL))).toBe("/");
  });

  it("of a saved filter has what this library knows, and no more", () => {
    const saved = { status: "active", kind: "audio", sort: "deleted", q: "fox", transcript: null, user_id: "x" };
    expect(savedOf(saved as never)).toEqual({ ...SILENT, status: "active", kind: "audio", q: "fox" });
  });

  it("may say anything", () => {
    expect(filterOf(new URLSearchParams("status=__proto__&kind=<b>&sort="))).toEqual(ALL);
    expect(filterOf(new URLSearchParams("status=active&kind=audio&sort=longest"))).toEqual({ ...ALL, shown: "active", kind: "audio", sort: "longest" });
  });
});

describe("questions", () => {
  it("asks once for all, and for each state that counts as in progress", () => {
    expect(questions(ALL)).toEqual([{ origin: "library" }]);
    expect(questions({ ...ALL, shown: "active", kind: "audio", sort: "title" })).toHaveLength(4);
    expect(questions({ ...ALL, shown: "failed" })).toEqual([
      { origin: "library", status: "failed" },
      { origin: "library", transcript: "failed" },
    ]);
    expect(questions({ ...ALL, tag: "x", collection: "col_1", origin: "api" })).toEqual([{ tag: "x", collection: "col_1", origin: "api" }]);
  });
});

describe("fits", () => {
  it("knows tags, collections and what programs have sent", () => {
    const item = media("a", { tags: ["Ｓummer"], collections: [{ id: "col_1", name: "2020" }], origin: "api" });
    const api: Filter = { ...ALL, origin: "api" };
    expect(fits(item, ALL)).toBe(false);
    expect(fits(item, api)).toBe(true);
    expect(fits(item, { ...api, tag: "summer", collection: "col_1" })).toBe(true);
    expect(fits(item, { ...api, tag: "winter" })).toBe(false);
    expect(fits(item, { ...api, collection: "col_2" })).toBe(false);
  });

  it("agrees with the questions", () => {
    const failed = media("a", { transcript_status: "failed" });
    expect(fits(failed, { ...ALL, shown: "failed" })).toBe(true);
    expect(fits(failed, { ...ALL, shown: "ready" })).toBe(true);
    expect(fits(failed, { ...ALL, shown: "active" })).toBe(false);
    expect(fits(failed, { ...ALL, kind: "audio" })).toBe(false);
    expect(fits(media("b", { status: "pending" }), { ...ALL, shown: "active" })).toBe(true);
  });
});

describe("placed", () => {
  const newest = compare("newest");
  const items = [media("e"), media("c"), media("a")];

  it("puts new ones where they belong", () => {
    expect(ids(placed(items, media("f"), newest, true))).toBe("feca");
    expect(ids(placed(items, media("d"), newest, true))).toBe("edca");
  });

  it("leaves what belongs further down to the next page", () => {
    expect(ids(placed(items, media("0"), newest, true))).toBe("eca");
    expect(ids(placed(items, media("0"), newest, false))).toBe("eca0");
  });

  it("changes in place, and moves when the order says so", () => {
    const renamed = placed(items, media("c", { title: "x" }), newest, false);
    expect(renamed.map((each) => each.title)).toEqual(["e", "x", "a"]);
    const byTitle = [media("a"), media("c"), media("e")];
    expect(ids(placed(byTitle, media("a", { title: "z" }), compare("title"), true))).toBe("cea");
  });
});

describe("compare", () => {
  it.each([
    ["oldest", "abc"],
    ["newest", "cba"],
    ["title", "bca"],
    ["longest", "acb"],
    ["largest", "cba"],
    ["recorded", "bac"],
  ] as const)("%s", (sort, order) => {
    const all = [
      media("a", { title: "Zoo", duration: 9, size_bytes: 1, created_at: "2024-01-01T00:00:00Z" }),
      media("b", { title: "apple", duration: null, size_bytes: 5, created_at: "2024-01-02T00:00:00Z" }),
      media("c", { title: "Banana", duration: 3, size_bytes: 7, created_at: "2024-01-03T00:00:00Z", recorded_at: "1962-07-01T00:00:00Z" }),
    ];
    expect(ids(all.sort(compare(sort)))).toBe(order);
  });
});

describe("released", () => {
  const newest = compare("newest");

  it("holds back what something better may still come before", () => {
    const pool = [media("i"), media("e"), media("h"), media("b"), media("e")];
    const [now, later] = released(pool, [media("e")], newest);
    expect([ids(now), ids(later)]).toEqual(["ihe", "b"]);
  });

  it("holds nothing back in the end", () => {
    const [now, later] = released([media("a"), media("b")], [], newest);
    expect([ids(now), later]).toEqual(["ba", []]);
  });
});
