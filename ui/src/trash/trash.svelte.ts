/** What is in the trash, as far as it was read. Events tell what comes and what is restored. */
import { api, ok, type Media } from "../lib/api";
import type { LiveEvent } from "../lib/live.svelte";
import { LiveList, type Page } from "../lib/live-list.svelte";
import type { components } from "../lib/schema";

const PAGE = 100;

interface TrashPage extends Page<Media> {
  /** Of all, also of what was not read yet. */
  summary: components["schemas"]["Trash"];
}

export class Trash extends LiveList<Media> {
  total = $state(0);
  sizeBytes = $state(0);
  periodSeconds = $state(0);

  constructor() {
    // Deleting for good is no event.
    super(PAGE, { refreshOnReturn: true });
  }

  protected override async fetch(): Promise<TrashPage> {
    const [summary, page] = await Promise.all([ok(api.GET("/api/v1/media/trash")), super.fetch()]);
    return { ...page, summary };
  }

  protected override async fetchPage(cursor: string | null, limit: number): Promise<Page<Media>> {
    const query = { status: "trashed" as const, limit, ...(cursor ? { cursor } : {}) };
    const page = await ok(api.GET("/api/v1/media", { params: { query } }));
    return { items: page.items, next: page.next_cursor ?? null };
  }

  protected override apply(page: TrashPage): void {
    super.apply(page);
    this.total = page.summary.items;
    this.sizeBytes = page.summary.size_bytes;
    this.periodSeconds = page.summary.period_seconds;
  }

  protected override onEvent(event: LiveEvent): void {
    const isRestored = () => this.isFetching || this.items.some((each) => each.id === event.media_id);
    if (event.type === "media.deleted" || (event.type === "media.updated" && isRestored())) this.refresh();
  }
}

const DAY_MS = 86_400_000;

/** Whole days until it may be gone; 0 when that may be today, or at any moment. */
export function daysLeft(purgeAt: string | null | undefined, now: number): number {
  return purgeAt ? Math.max(0, Math.round((Date.parse(purgeAt) - now) / DAY_MS)) : 0;
}
