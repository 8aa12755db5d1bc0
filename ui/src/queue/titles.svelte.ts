/** The titles of recordings, read when a job of theirs is shown. */
import { SvelteMap } from "svelte/reactivity";
import { api, ok, Problem } from "../lib/api";
import { live } from "../lib/live.svelte";

const AT_ONCE = 4;

class Titles {
  /** null: the recording is gone. */
  private known = new SvelteMap<string, string | null>();
  private asked = new Set<string>();
  private waiting: string[] = [];
  private running = 0;

  constructor() {
    live.on(["media.updated", "media.ready", "media.deleted"], (event) => {
      if (!event.media_id || !this.known.has(event.media_id)) return;
      if (event.type === "media.deleted") this.known.set(event.media_id, null);
      else this.read(event.media_id);
    });
  }

  /** Nothing as long as it is being read. */
  of(id: string): string | null | undefined {
    if (!this.asked.has(id)) {
      this.asked.add(id);
      this.read(id);
    }
    return this.known.get(id);
  }

  private read(id: string): void {
    if (!this.waiting.includes(id)) this.waiting.push(id);
    queueMicrotask(() => this.next());
  }

  private next(): void {
    while (this.running < AT_ONCE && this.waiting.length) {
      const id = this.waiting.shift()!;
      this.running += 1;
      void this.fetch(id).finally(() => {
        this.running -= 1;
        this.next();
      });
    }
  }

  private async fetch(id: string): Promise<void> {
    try {
      const media = await ok(api.GET("/api/v1/media/{media_id}", { params: { path: { media_id: id } } }));
      this.known.set(id, media.title);
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.known.set(id, null);
      // Otherwise the next look asks again.
      else this.asked.delete(id);
    }
  }
}

export const titles = new Titles();
