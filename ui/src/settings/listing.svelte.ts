/** A list as the server has it. Most settings tell no events, so it is read again when somebody comes
back to the page. */
import { LiveList, type Page } from "../lib/live-list.svelte";
import { said } from "./sentence";

const PAGE = 50;

interface Answer<T> {
  items: T[];
  next_cursor?: string | null;
}

/** For what has no id but its name. */
export function byName<T extends { name: string }>(items: T[]): Answer<T & { id: string }> {
  return { items: items.map((each) => ({ ...each, id: each.name })) };
}

export class Listing<T extends { id: string }> extends LiveList<T> {
  constructor(
    /** Without `next_cursor`, all there is. */
    private read: (query: { limit: number; cursor?: string }) => Promise<Answer<T>>,
    pageSize = PAGE,
  ) {
    super(pageSize, { refreshOnReturn: true });
  }

  protected override async fetchPage(cursor: string | null, limit: number): Promise<Page<T>> {
    const { items, next_cursor } = await this.read({ limit, ...(cursor ? { cursor } : {}) });
    return { items, next: next_cursor ?? null };
  }

  protected override sentence(error: unknown): string {
    return said(error);
  }
}
