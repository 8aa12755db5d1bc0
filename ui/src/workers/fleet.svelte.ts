/** The workers and what each is doing, kept true while the page is open. */
import { api, ok, sentenceOf, type Job, type Worker } from "../lib/api";
import { live, type LiveEvent } from "../lib/live.svelte";
import { progressed } from "../lib/media.svelte";
import { Paced, whileSeen } from "../queue/paced";
import { sorted } from "./describe";

const GAP_MS = 700;
// Heartbeats renew leases and "last seen" without an event.
const LOOK_MS = 10_000;
const MOST_JOBS = 200;

export class Fleet {
  workers = $state.raw<Worker[]>([]);
  running = $state.raw<Job[]>([]);
  isLoaded = $state(false);
  problem = $state("");

  private paced = new Paced(() => this.load(), GAP_MS);

  start(): () => void {
    void this.load();
    const stops = [
      live.on(["*"], (event) => this.hear(event)),
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

  /** What an action has answered. */
  put(worker: Worker): void {
    this.workers = sorted(this.workers.map((each) => (each.id === worker.id ? worker : each)));
    this.paced.ask();
  }

  jobsOf(worker: Worker): Job[] {
    return this.running.filter((job) => job.claimed_by === worker.id);
  }

  async load(): Promise<void> {
    try {
      const query = { state: "processing" as const, limit: MOST_JOBS };
      const [workers, jobs] = await Promise.all([
        ok(api.GET("/api/v1/workers")),
        ok(api.GET("/api/v1/jobs", { params: { query } })),
      ]);
      this.workers = sorted(workers.items);
      this.running = jobs.items;
      this.isLoaded = true;
      this.problem = "";
    } catch (error) {
      this.problem = sentenceOf(error);
    }
  }

  private hear(event: LiveEvent): void {
    if (event.type.endsWith(".passage")) return;
    if (event.type.startsWith("worker.")) return this.paced.ask();
    if (!event.job_id) return;
    const at = this.running.findIndex((job) => job.id === event.job_id);
    if (at >= 0) this.running = this.running.with(at, progressed(this.running[at]!, event));
    if (!event.type.endsWith(".progress")) this.paced.ask();
  }
}
