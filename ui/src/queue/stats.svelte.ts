/** How many jobs there are of what, and what is paused; kept true while the page is open. */
import { api, ok, type QueueStats } from "../lib/api";
import { isProgress } from "../lib/live.svelte";
import { LiveValue } from "../lib/live-data.svelte";

export class LiveStats extends LiveValue<QueueStats> {
  constructor() {
    super(
      () => ok(api.GET("/api/v1/queue/stats")),
      (event) => (event.job_id !== undefined && !isProgress(event)) || event.type.startsWith("queue."),
      // Pauses and what others' servers do are not told as events.
      { waitMs: 120, gapMs: 1_000, pollMs: 15_000 },
    );
  }

  /** The answer of pausing and resuming, before the next look. */
  setPaused(paused: string[]): void {
    if (this.current) this.current = { ...this.current, paused };
    this.refresh();
  }
}
