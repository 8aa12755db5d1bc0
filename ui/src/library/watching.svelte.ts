/** What somebody has begun to watch: where they stopped, the last one first. */
import { api, ok, type components } from "../lib/api";

export type Watched = components["schemas"]["Watched"];

const MOST = 50;

class Watching {
  items = $state.raw<Watched[]>([]);
  readonly shares = $derived(new Map(this.items.map((each) => [each.media_id, share(each)])));

  /** How many readings were begun: only the last one's answer counts. */
  private begun = 0;
  private isLoading = false;

  /** Nothing to complain about: the library is there without it. */
  async load(): Promise<void> {
    const reading = ++this.begun;
    this.isLoading = true;
    const { items } = await ok(api.GET("/api/v1/watching", { params: { query: { limit: MOST } } })).catch(() => this);
    if (reading !== this.begun) return;
    this.isLoading = false;
    this.items = items;
  }

  async forget(mediaId: string): Promise<void> {
    await ok(api.DELETE("/api/v1/media/{media_id}/position", { params: { path: { media_id: mediaId } } }));
    this.items = this.items.filter((each) => each.media_id !== mediaId);
    // What is under way may have been read before, and would bring it back.
    if (this.isLoading) await this.load();
  }
}

/** How much of it was seen, from 0 to 1. */
function share({ seconds, media }: Watched): number {
  return media.duration ? Math.min(1, seconds / media.duration) : 0;
}

export const watching = new Watching();
