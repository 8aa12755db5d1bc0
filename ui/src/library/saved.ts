/** A filter as it is saved, as the words of an address. Pure. */
import type { components } from "../lib/api";
import { filterOf, queryOf } from "./filters";

/** Only what this library knows; `q` are the words of a search. */
export function savedOf(filter: components["schemas"]["LibraryFilter"]): Record<string, string> {
  const said = Object.entries(filter).filter((each): each is [string, string] => typeof each[1] === "string");
  const query = new URLSearchParams(said);
  return { ...(query.get("q") ? { q: query.get("q")! } : {}), ...queryOf(filterOf(query)) };
}
