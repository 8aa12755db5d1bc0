/** The log of one webhook: its newest messages, and older ones as they are asked for. */
import { api, ok, Problem, type Delivery } from "../lib/api";
import type { LiveEvent } from "../lib/live.svelte";
import { Listing } from "./listing.svelte";

const PAGE = 20;

export class DeliveryLog extends Listing<Delivery> {
  constructor(webhookId: string) {
    super(async (query) => {
      const params = { path: { webhook_id: webhookId }, query };
      try {
        return await ok(api.GET("/api/v1/webhooks/{webhook_id}/deliveries", { params }));
      } catch (error) {
        // The server's own one is there only once it has told something.
        if (error instanceof Problem && error.status === 404) return { items: [] };
        throw error;
      }
    }, PAGE);
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.type.startsWith("webhook.")) this.refresh();
  }
}

/** What became of the last try, when it was no success. */
export function outcomeOf(delivery: Delivery, words: Record<string, string>, answered: (status: number) => string): string {
  if (delivery.error_code && words[delivery.error_code]) return words[delivery.error_code]!;
  if (delivery.answer !== null) return answered(delivery.answer);
  return delivery.error_code ?? "";
}
