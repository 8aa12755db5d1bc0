/** What is in the trash, as far as it was read. Events tell what comes and what is restored. */
import { api, ok, sentenceOf, type Media } from "../lib/api";
import { live } from "../lib/live.svelte";
import { Refresher } from "../lib/media.svelte";

const PAGE = 100;

export class Trash {
  items = $state.raw<Media[]>([]);
  /** Of all, also of what was not read yet. */
  total = $state(0);
  sizeBytes = $state(0);
  periodSeconds = $state(0);
  state = $state<"loading" | "there" | "failed">("loading");
  problem = $state("");
  goesOn = $state(false);
  loadingMore = $state(false);

  private cursor: string | null = null;
  private turn = 0;
  private refresher = new Refresher(() => this.load());

  start(): () => void {
    void this.load();
    const stops = [
      live.on(["media.deleted"], (event) => event.media_id && this.refresher.ask(event.media_id)),
      live.on(["media.updated"], (event) => {
        if (this.items.some((each) => each.id === event.media_id)) this.refresher.ask(event.media_id!);
      }),
      live.onReset(() => void this.load()),
    ];
    // Deleting for good is no event: whoever comes back from another window looks again.
    const look = () => document.visibilityState === "visible" && void this.load();
    document.addEventListener("visibilitychange", look);
    return () => {
      stops.forEach((stop) => stop());
      document.removeEventListener("visibilitychange", look);
      this.refresher.stop();
    };
  }

  /** As much as was shown already, anew. */
  async load(): Promise<void> {
    const turn = ++this.turn;
    const least = this.items.length;
    try {
      const summary = await ok(api.GET("/api/v1/media/trash"));
      let [items, cursor] = await this.page(null);
      while (items.length < least && cursor) {
        const [more, next] = await this.page(cursor);
        items = [...items, ...more];
        cursor = next;
      }
      if (turn !== this.turn) return;
      [this.items, this.cursor, this.goesOn] = [items, cursor, cursor !== null];
      [this.total, this.sizeBytes, this.periodSeconds] = [summary.items, summary.size_bytes, summary.period_seconds];
      this.state = "there";
    } catch (error) {
      if (turn !== this.turn || this.state === "there") return;
      this.problem = sentenceOf(error);
      this.state = "failed";
    }
  }

  async more(): Promise<void> {
    if (!this.cursor || this.loadingMore) return;
    const turn = this.turn;
    this.loadingMore = true;
    try {
      const [items, cursor] = await this.page(this.cursor);
      if (turn !== this.turn) return;
      this.items = [...this.items, ...items];
      [this.cursor, this.goesOn] = [cursor, cursor !== null];
    } finally {
      this.loadingMore = false;
    }
  }

  private async page(cursor: string | null): Promise<[Media[], string | null]> {
    const query = { status: "trashed" as const, limit: PAGE, ...(cursor ? { cursor } : {}) };
    const answer = await ok(api.GET("/api/v1/media", { params: { query } }));
    return [answer.items, answer.next_cursor ?? null];
  }
}

const DAY_MS = 86_400_000;

/** Whole days until it may be gone; 0 when that may be today, or at any moment. */
export function daysLeft(purgeAt: string | null | undefined, now: number): number {
  return purgeAt ? Math.max(0, Math.floor((Date.parse(purgeAt) - now) / DAY_MS)) : 0;
}
