/** How many jobs there are of what, and what is paused; kept true while the page is open. */
import { api, ok, sentenceOf, type QueueStats } from "../lib/api";
import { live } from "../lib/live.svelte";
import { Paced, whileSeen } from "./paced";

const GAP_MS = 1_000;
// Pauses and what others' servers do are not told as events.
const LOOK_MS = 15_000;

export class LiveStats {
  current = $state.raw<QueueStats | null>(null);
  problem = $state("");

  private paced = new Paced(() => this.load(), GAP_MS);

  start(): () => void {
    void this.load();
    const stops = [
      live.on(["*"], (event) => {
        const isCounted = event.job_id && !event.type.endsWith(".progress") && !event.type.endsWith(".passage");
        if (isCounted || event.type.startsWith("queue.")) this.paced.ask();
      }),
      live.onReset(() => this.paced.ask()),
      whileSeen(() => this.paced.ask(), LOOK_MS),
    ];
    return () => {
      stops.forEach((stop) => stop());
      this.paced.stop();
    };
  }

  refresh(): void {
    this.paced.ask();
  }

  async load(): Promise<void> {
    try {
      this.current = await ok(api.GET("/api/v1/queue/stats"));
      this.problem = "";
    } catch (error) {
      this.problem = sentenceOf(error);
    }
  }

  /** The answer of pausing and resuming, before the next look. */
  setPaused(paused: string[]): void {
    if (this.current) this.current = { ...this.current, paused };
    this.paced.ask();
  }
}
