/** Deleting puts things into the trash on the server at once; to undo is to restore them. So nothing
is lost by a reload: what a message offers for a moment, the trash offers for weeks. */
import { SvelteSet } from "svelte/reactivity";
import { api, ok } from "./api";
import { live } from "./live.svelte";
import { t } from "./texts";
import { toasts } from "./toasts.svelte";

const OFFERED_MS = 10_000;
/** So many ids in one request, as the server takes them. */
const AT_ONCE = 1_000;

export type Action = "delete" | "restore" | "purge";

/** Returns how many were changed; `ids` left out means everything in the trash. */
export async function act(action: Action, ids?: string[]): Promise<number> {
  let changed = 0;
  const pages = ids ? Array.from({ length: Math.ceil(ids.length / AT_ONCE) }, (_, at) => ids.slice(at * AT_ONCE, (at + 1) * AT_ONCE)) : [undefined];
  for (const page of pages) {
    const filter = { everyone: false, ...(page ? { ids: page } : {}) };
    const done = await ok(api.POST("/api/v1/media/actions", { body: { action, filter, add: [], remove: [], dry_run: false } }));
    changed += done.changed;
  }
  return changed;
}

class Deletions {
  /** What is to be shown no more, though the page may not have heard of it yet. */
  hidden = new SvelteSet<string>();

  constructor() {
    // Somebody may have restored it elsewhere.
    live.on(["media.updated"], (event) => event.media_id && this.hidden.delete(event.media_id));
  }

  /** `said` is told with the way back. */
  async start(ids: string[], said: string): Promise<void> {
    for (const id of ids) this.hidden.add(id);
    try {
      await act("delete", ids);
    } catch (error) {
      for (const id of ids) this.hidden.delete(id);
      toasts.bad(error);
      return;
    }
    toasts.show(said, { ms: OFFERED_MS, action: { label: t.common.undo, run: () => void this.undo(ids) } });
  }

  private async undo(ids: string[]): Promise<void> {
    try {
      const restored = await act("restore", ids);
      if (restored < ids.length) toasts.show(t.common.notRestored(ids.length - restored));
    } catch (error) {
      toasts.bad(error);
    }
    for (const id of ids) this.hidden.delete(id);
  }
}

export const deletions = new Deletions();
