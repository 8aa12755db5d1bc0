/** What a search has found, as it is shown. Pure. */
import type { Moment } from "../lib/api";

export interface Piece {
  text: string;
  marked: boolean;
}

export interface Found {
  mediaId: string;
  title: Piece[];
  moments: Moment[];
}

/** A snippet cut at its marks, which count whole characters, not halves of them. */
export function pieces(snippet: string, marks: readonly (readonly number[])[]): Piece[] {
  const characters = Array.from(snippet);
  const found: Piece[] = [];
  let at = 0;
  const take = (to: number, marked: boolean) => {
    if (to > at) found.push({ text: characters.slice(at, to).join(""), marked });
    at = Math.max(at, to);
  };
  for (const [start = 0, end = 0] of [...marks].sort((a, b) => (a[0] ?? 0) - (b[0] ?? 0))) {
    take(Math.min(start, characters.length), false);
    take(Math.min(end, characters.length), true);
  }
  take(characters.length, false);
  return found;
}

/** By media, in the order in which the best of each was found; within one, as it is spoken. */
export function grouped(found: Moment[]): Found[] {
  const groups = new Map<string, Found>();
  for (const each of found) {
    let group = groups.get(each.media_id);
    if (!group) {
      group = { mediaId: each.media_id, title: pieces(each.title, []), moments: [] };
      groups.set(each.media_id, group);
    }
    if (each.kind === "title") group.title = pieces(each.snippet, each.marks);
    else group.moments.push(each);
  }
  for (const group of groups.values()) group.moments.sort((a, b) => a.start - b.start);
  return [...groups.values()];
}

/** Where watching should begin: a breath before the words. */
export function watchAt(mediaId: string, start: number): string {
  return `/watch/${encodeURIComponent(mediaId)}?t=${Math.round(start * 10) / 10}`;
}
