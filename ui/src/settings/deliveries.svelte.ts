/** The log of one webhook: its newest messages, and older ones as they are asked for. */
import { api, ok, Problem, type Delivery } from "../lib/api";
import { toasts } from "../lib/toasts.svelte";
import { said } from "./sentence";

const PAGE = 20;
const MOST = 200;

export class DeliveryLog {
  items = $state.raw<Delivery[] | null>(null);
  problem = $state("");
  hasMore = $state(false);
  busy = $state(false);
  private cursor: string | null = null;
  private latest = 0;

  constructor(private webhookId: string) {}

  /** As many as are shown, anew. */
  async load(): Promise<void> {
    const mine = (this.latest += 1);
    try {
      const limit = Math.min(MOST, Math.max(PAGE, this.items?.length ?? 0));
      const found = await this.read(limit);
      if (mine !== this.latest) return;
      this.items = found.items;
      this.cursor = found.next_cursor ?? null;
      this.hasMore = this.cursor !== null;
      this.problem = "";
    } catch (error) {
      // The server's own one is there only once it has told something.
      if (error instanceof Problem && error.status === 404) this.items = [];
      else if (mine === this.latest) this.problem = said(error);
    }
  }

  async more(): Promise<void> {
    if (this.busy || !this.cursor) return;
    this.busy = true;
    try {
      const found = await this.read(PAGE, this.cursor);
      const known = new Set((this.items ?? []).map((each) => each.id));
      this.items = [...(this.items ?? []), ...found.items.filter((each) => !known.has(each.id))];
      this.cursor = found.next_cursor ?? null;
      this.hasMore = this.cursor !== null;
    } catch (error) {
      toasts.bad(error);
    } finally {
      this.busy = false;
    }
  }

  private read(limit: number, cursor: string | null = null) {
    const params = { path: { webhook_id: this.webhookId }, query: { limit, ...(cursor ? { cursor } : {}) } };
    return ok(api.GET("/api/v1/webhooks/{webhook_id}/deliveries", { params }));
  }
}

/** What became of the last try, when it was no success. */
export function outcomeOf(delivery: Delivery, words: Record<string, string>, answered: (status: number) => string): string {
  if (delivery.error_code && words[delivery.error_code]) return words[delivery.error_code]!;
  if (delivery.answer !== null) return answered(delivery.answer);
  return delivery.error_code ?? "";
}
