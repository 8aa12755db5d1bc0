/** Which jobs are shown: kept in the address, sent to the server. Pure. */
import { kinds } from "../lib/kinds.svelte";
import type { components, paths } from "../lib/schema";

type Wanted = components["schemas"]["Wanted"];
type Query = NonNullable<paths["/api/v1/jobs"]["get"]["parameters"]["query"]>;

/** In the order in which people look for them. */
export const STATES = ["processing", "queued", "blocked", "failed", "completed", "canceled"] as const;

export interface Filters {
  state: string;
  kind: string;
  user: string;
  worker: string;
  error: string;
  media: string;
  q: string;
  housekeeping: boolean;
}

export type OfKinds = Pick<Filters, "kind" | "housekeeping">;

export const NO_FILTERS: Filters = {
  state: "",
  kind: "",
  user: "",
  worker: "",
  error: "",
  media: "",
  q: "",
  housekeeping: false,
};

const NAMES = ["state", "kind", "user", "worker", "error", "media", "q"] as const;

export function fromAddress(query: URLSearchParams): Filters {
  const found: Filters = { ...NO_FILTERS, housekeeping: query.get("all") === "1" };
  for (const name of NAMES) found[name] = query.get(name) ?? "";
  if (!(STATES as readonly string[]).includes(found.state)) found.state = "";
  return found;
}

export function toAddress(filters: Filters): Record<string, string> {
  const words = Object.fromEntries(NAMES.map((name) => [name, filters[name]]));
  return { ...words, all: filters.housekeeping ? "1" : "" };
}

/** The words behind the question mark, for links that keep the filters. */
export function addressOf(filters: Filters): string {
  const given = Object.entries(toAddress(filters)).filter(([, value]) => value);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export function isFiltered(filters: Filters): boolean {
  return NAMES.some((name) => filters[name] !== "");
}

/** Whether everything but the state is left open. */
export function isOnlyState(filters: Filters): boolean {
  return NAMES.every((name) => name === "state" || filters[name] === "");
}

/** Somebody who asks for a kind by name wants to see it. */
export function leftOut(filters: OfKinds): string[] {
  return filters.housekeeping || filters.kind ? [] : kinds.housekeeping;
}

export function isShown(kind: string, filters: OfKinds): boolean {
  return filters.kind ? kind === filters.kind : !leftOut(filters).includes(kind);
}

export function toList(filters: Filters): Query {
  const not = leftOut(filters).join(",");
  return given({ ...conditions(filters), not_kind: not }) as Query;
}

export function toBulk(filters: Filters): Wanted {
  const not = leftOut(filters);
  return { ...given(conditions(filters)), ...(not.length ? { not_kinds: not } : {}) } as Wanted;
}

function conditions(filters: Filters): Record<string, string> {
  return {
    state: filters.state,
    kind: filters.kind,
    user_id: filters.user,
    worker_id: filters.worker,
    error_code: filters.error,
    media_id: filters.media,
    q: filters.q,
  };
}

function given(all: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
}
