/** Deleting with a moment to think better of it: nothing is sent until the moment is over. */
import { SvelteSet } from "svelte/reactivity";
import { api, ok, Problem } from "./api";
import { t } from "./texts";
import { toasts } from "./toasts.svelte";

const MOMENT_MS = 8_000;

class Deletions {
  /** What is to be shown no more. */
  hidden = new SvelteSet<string>();
  private waiting = new Map<string, ReturnType<typeof setTimeout>>();

  constructor() {
    // A page that is closed has had its moment.
    globalThis.addEventListener?.("pagehide", () => {
      for (const id of this.waiting.keys()) {
        void fetch(`/api/v1/media/${encodeURIComponent(id)}`, { method: "DELETE", keepalive: true });
      }
      this.waiting.clear();
    });
  }

  /** `said` is told with the way back. */
  start(ids: string[], said: string, undone: () => void = () => {}): void {
    for (const id of ids) {
      this.hidden.add(id);
      this.waiting.set(id, setTimeout(() => void this.finish(id), MOMENT_MS));
    }
    toasts.show(said, {
      ms: MOMENT_MS,
      action: {
        label: t.common.undo,
        run: () => {
          ids.forEach((id) => this.keep(id));
          undone();
        },
      },
    });
  }

  private keep(id: string): void {
    clearTimeout(this.waiting.get(id));
    this.waiting.delete(id);
    this.hidden.delete(id);
  }

  private async finish(id: string): Promise<void> {
    this.waiting.delete(id);
    try {
      await ok(api.DELETE("/api/v1/media/{media_id}", { params: { path: { media_id: id } } }));
    } catch (error) {
      // Somebody else was quicker.
      if (error instanceof Problem && error.status === 404) return;
      this.hidden.delete(id);
      toasts.bad(error);
    }
  }
}

export const deletions = new Deletions();
