/** Which media are asked for, and in which order: what the address says of it. Pure. */
import type { Media } from "../lib/api";
import { folded } from "../lib/folded";

export const SHOWN = ["all", "ready", "active", "failed"] as const;
export const KINDS = ["all", "video", "audio"] as const;
export const SORTS = ["newest", "oldest", "recorded", "title", "longest", "largest"] as const;
/** What programs have sent is apart from what people keep. */
export const ORIGINS = ["library", "api"] as const;

export type Shown = (typeof SHOWN)[number];
export type Kind = (typeof KINDS)[number];
export type Sort = (typeof SORTS)[number];

export interface Filter {
  shown: Shown;
  kind: Kind;
  sort: Sort;
  origin: (typeof ORIGINS)[number];
  /** A name; empty: any. */
  tag: string;
  /** An id; empty: any. */
  collection: string;
}

/** What the server is asked. */
export interface Query {
  status?: "pending" | "processing" | "ready" | "failed";
  transcript?: "pending" | "processing" | "failed";
  kind?: "video" | "audio";
  sort?: Sort;
  origin: Filter["origin"];
  tag?: string;
  collection?: string;
}

export function filterOf(query: URLSearchParams): Filter {
  return {
    shown: oneOf(SHOWN, query.get("status")),
    kind: oneOf(KINDS, query.get("kind")),
    sort: oneOf(SORTS, query.get("sort")),
    origin: oneOf(ORIGINS, query.get("origin")),
    tag: query.get("tag") ?? "",
    collection: query.get("collection") ?? "",
  };
}

function oneOf<T extends string>(known: readonly T[], given: string | null): T {
  return known.find((each) => each === given) ?? known[0]!;
}

/** For the address: what is as ever is not said. */
export function queryOf(filter: Filter): Record<"status" | "kind" | "sort" | "origin" | "tag" | "collection", string> {
  const said = <T extends string>(known: readonly T[], value: T) => (value === known[0] ? "" : value);
  return {
    status: said(SHOWN, filter.shown),
    kind: said(KINDS, filter.kind),
    sort: said(SORTS, filter.sort),
    origin: said(ORIGINS, filter.origin),
    tag: filter.tag,
    collection: filter.collection,
  };
}

/** The address of the library with this filter. */
export function addressOf(query: Record<string, string | null | undefined>): string {
  const said = Object.entries(query).filter((each): each is [string, string] => Boolean(each[1]));
  const tail = new URLSearchParams(said).toString();
  return tail ? `/?${tail}` : "/";
}

export function isPlain(filter: Filter): boolean {
  return filter.shown === "all" && filter.kind === "all" && filter.origin === "library" && !filter.tag && !filter.collection;
}

/** The questions whose answers together are what the filter means. */
export function questions(filter: Filter): Query[] {
  const common: Query = {
    ...(filter.kind === "all" ? {} : { kind: filter.kind }),
    ...(filter.sort === "newest" ? {} : { sort: filter.sort }),
    ...(filter.tag ? { tag: filter.tag } : {}),
    ...(filter.collection ? { collection: filter.collection } : {}),
    origin: filter.origin,
  };
  const parts: Record<Shown, Partial<Query>[]> = {
    all: [{}],
    ready: [{ status: "ready" }],
    active: [{ status: "processing" }, { status: "pending" }, { transcript: "processing" }, { transcript: "pending" }],
    failed: [{ status: "failed" }, { transcript: "failed" }],
  };
  return parts[filter.shown].map((part) => ({ ...common, ...part }));
}

const ACTIVE = ["pending", "processing"];

export function fits(media: Media, filter: Filter): boolean {
  if (filter.kind !== "all" && media.kind !== filter.kind) return false;
  if ((media.origin === "api") !== (filter.origin === "api")) return false;
  if (filter.tag && !media.tags?.some((each) => folded(each) === folded(filter.tag))) return false;
  if (filter.collection && !media.collections?.some((each) => each.id === filter.collection)) return false;
  const states = [media.status, media.transcript_status];
  switch (filter.shown) {
    case "all":
      return true;
    case "ready":
      return media.status === "ready";
    case "active":
      return states.some((each) => ACTIVE.includes(each));
    case "failed":
      return states.includes("failed");
  }
}

/** Below 0 when `a` comes first: as the server sorts. Ids are in the order of their making. */
export function compare(sort: Sort): (a: Media, b: Media) => number {
  const newer = (a: Media, b: Media) => before(b.id, a.id);
  switch (sort) {
    case "newest":
      return newer;
    case "oldest":
      return (a, b) => newer(b, a);
    case "recorded":
      return (a, b) => recorded(b) - recorded(a) || newer(a, b);
    case "title":
      return (a, b) => before(folded(a.title), folded(b.title)) || newer(b, a);
    case "longest":
      return (a, b) => (b.duration ?? -1) - (a.duration ?? -1) || newer(a, b);
    case "largest":
      return (a, b) => b.size_bytes - a.size_bytes || newer(a, b);
  }
}

function recorded(media: Media): number {
  return Date.parse(media.recorded_at ?? media.created_at ?? "") || 0;
}

function before(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The list with an item where it belongs. An item that belongs behind the last one of a list that
goes on is left out: it comes when the list goes on. */
export function placed(items: Media[], item: Media, order: (a: Media, b: Media) => number, hasMore: boolean): Media[] {
  const at = items.findIndex((each) => each.id === item.id);
  const rest = at < 0 ? items : items.toSpliced(at, 1);
  // What has not changed its rank stays where the server has put it.
  if (at >= 0 && order(items[at]!, item) === 0) return items.with(at, item);
  const to = rest.findIndex((each) => order(item, each) < 0);
  if (to >= 0) return rest.toSpliced(to, 0, item);
  return hasMore && at < 0 ? rest : [...rest, item];
}

/** Of what several questions have brought, what is surely in its place already, and what has to wait
for more. `lasts` are the last answers of the questions that are not answered to the end. */
export function released(pool: Media[], lasts: Media[], order: (a: Media, b: Media) => number): [Media[], Media[]] {
  const sorted = [...new Map(pool.map((each) => [each.id, each])).values()].sort(order);
  const bound = lasts.toSorted(order)[0];
  if (!bound) return [sorted, []];
  const cut = sorted.findIndex((each) => order(each, bound) > 0);
  return cut < 0 ? [sorted, []] : [sorted.slice(0, cut), sorted.slice(cut)];
}
