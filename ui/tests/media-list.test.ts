import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import "./known-kinds";
import { api, type Media } from "../src/lib/api";
import { live, type LiveEvent } from "../src/lib/live.svelte";
import type { Filter } from "../src/library/filters";
import { MediaList } from "../src/library/media-list.svelte";

const media = (id: string, more: Partial<Media> = {}): Media =>
  ({ id, title: id, kind: "video", status: "ready", transcript_status: "ready", jobs: [], ...more }) as unknown as Media;
const settle = () => vi.advanceTimersByTimeAsync(0);
const tell = (event: LiveEvent) => (live as unknown as { tell: (event: LiveEvent) => void }).tell(event);
const FILTER: Filter = { shown: "all", kind: "all", sort: "newest", origin: "library", tag: "", collection: "" };

type Query = { status?: string; transcript?: string; cursor?: string; limit: number };
type Answer = { items: Media[]; next_cursor?: string | null };

/** The server: how it lists, and what it has by id. */
let list: (query: Query) => Answer | Promise<Answer>;
let byId: Map<string, Media>;
let asked: string[];

function served(path: string, params: { path?: { media_id: string }; query?: Query }) {
  asked.push(params.path?.media_id ?? "list");
  if (!params.path) return list(params.query!);
  return byId.get(params.path.media_id);
}

beforeEach(() => {
  vi.useFakeTimers();
  [byId, asked] = [new Map(), []];
  vi.spyOn(api, "GET").mockImplementation((async (path: string, { params }: { params: object }) => {
    const data = await served(path, params);
    return data ? { data, response: new Response() } : { error: {}, response: new Response(null, { status: 404 }) };
  }) as never);
});
afterEach(() => {
  // A library listens for as long as the page is open.
  (live as unknown as { listeners: Set<unknown> }).listeners.clear();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const ids = (mediaList: MediaList) => mediaList.items.map((each) => each.id).join(" ");

describe("the library", () => {
  it("merges the answers to several questions, each item in its place and once", async () => {
    const failed = (id: string) => media(id, { status: "failed", transcript_status: "failed" });
    list = ({ status, cursor }) => {
      if (!status) return { items: [failed("5"), failed("2")], next_cursor: null };
      return cursor ? { items: [failed("3"), failed("2")] } : { items: [failed("6"), failed("4")], next_cursor: "4" };
    };
    const mediaList = new MediaList();
    mediaList.open("usr_1", { ...FILTER, shown: "failed" });
    await settle();
    expect([ids(mediaList), mediaList.hasMore]).toEqual(["6 5 4", true]);
    void mediaList.more();
    await settle();
    expect([ids(mediaList), mediaList.hasMore]).toEqual(["6 5 4 3 2", false]);
  });

  it("forgets what was deleted while it waited for its place", async () => {
    const failed = (id: string) => media(id, { status: "failed" });
    list = ({ status, cursor }) => {
      if (!status) return { items: [failed("2")], next_cursor: null };
      return cursor ? { items: [failed("3")] } : { items: [failed("4")], next_cursor: "4" };
    };
    const mediaList = new MediaList();
    mediaList.open("usr_1", { ...FILTER, shown: "failed" });
    await settle();
    tell({ type: "media.deleted", media_id: "2" });
    void mediaList.more();
    await settle();
    expect(ids(mediaList)).toBe("4 3");
  });

  it("reads by itself what has changed, and forgets what is not there any more", async () => {
    list = () => ({ items: [media("2"), media("1")] });
    const mediaList = new MediaList();
    mediaList.open("usr_1", FILTER);
    await settle();
    byId.set("1", media("1", { title: "new" })).set("3", media("3"));
    for (const id of ["1", "2", "3"]) tell({ type: "media.updated", media_id: id });
    await vi.advanceTimersByTimeAsync(200);
    expect(asked).toEqual(["list", "1", "2", "3"]);
    expect([ids(mediaList), mediaList.items[1]!.title]).toEqual(["3 1", "new"]);
  });

  it("looks at nothing again because of housekeeping", async () => {
    list = () => ({ items: [media("1")] });
    byId.set("1", media("1"));
    new MediaList().open("usr_1", FILTER);
    await settle();
    for (const type of ["span.completed", "purge.queued"]) tell({ type, media_id: "1" });
    await vi.advanceTimersByTimeAsync(200);
    expect(asked).toEqual(["list"]);
    tell({ type: "acme.summary.completed", media_id: "1" });
    await vi.advanceTimersByTimeAsync(200);
    expect(asked).toEqual(["list", "1"]);
  });

  it("reads after the list what has changed while it came", async () => {
    let answer: (page: Answer) => void = () => {};
    list = () => new Promise((resolve) => (answer = resolve));
    const mediaList = new MediaList();
    mediaList.open("usr_1", FILTER);
    byId.set("1", media("1", { title: "new" }));
    tell({ type: "media.updated", media_id: "1" });
    await vi.advanceTimersByTimeAsync(500);
    answer({ items: [media("1")] });
    await vi.advanceTimersByTimeAsync(200);
    expect(mediaList.items[0]!.title).toBe("new");
  });

  it("stays for whoever comes back, and begins anew for other filters and people", async () => {
    list = () => ({ items: [media("1")] });
    const mediaList = new MediaList();
    mediaList.open("usr_1", FILTER);
    mediaList.open("usr_1", { ...FILTER });
    await settle();
    mediaList.open("usr_1", { ...FILTER });
    expect(asked).toEqual(["list"]);
    mediaList.open("usr_1", { ...FILTER, sort: "title" });
    expect(mediaList.isLoaded).toBe(false);
    await settle();
    mediaList.open("usr_2", { ...FILTER, sort: "title" });
    expect(mediaList.items).toEqual([]);
    await settle();
    expect([asked.length, ids(mediaList)]).toEqual([3, "1"]);
  });
});
