/** The workers and what each is doing, kept true while the page is open. */
import { api, ok, type Job, type Worker } from "../lib/api";
import { isProgress, type LiveEvent } from "../lib/live.svelte";
import { LiveData } from "../lib/live-data.svelte";
import { replaced } from "../lib/live-list.svelte";
import { progressed } from "../lib/media.svelte";
import { sorted } from "./describe";

const MOST_JOBS = 200;

export class Fleet extends LiveData<[Worker[], Job[]]> {
  workers = $state.raw<Worker[]>([]);
  running = $state.raw<Job[]>([]);

  constructor() {
    // Heartbeats renew leases and "last seen" without an event.
    super({ waitMs: 120, gapMs: 700, pollMs: 10_000 });
  }

  /** What an action has returned. */
  put(worker: Worker): void {
    this.workers = sorted(replaced(this.workers, worker));
    this.refresh();
  }

  jobsOf(worker: Worker): Job[] {
    return this.running.filter((job) => job.claimed_by === worker.id);
  }

  protected override async fetch(): Promise<[Worker[], Job[]]> {
    const query = { state: "processing" as const, limit: MOST_JOBS };
    const [workers, jobs] = await Promise.all([
      ok(api.GET("/api/v1/workers")),
      ok(api.GET("/api/v1/jobs", { params: { query } })),
    ]);
    return [workers.items, jobs.items];
  }

  protected override apply([workers, jobs]: [Worker[], Job[]]): void {
    this.workers = sorted(workers);
    this.running = jobs;
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.type.startsWith("worker.")) return this.refresh();
    if (!event.job_id) return;
    const job = this.running.find((each) => each.id === event.job_id);
    if (job) this.running = replaced(this.running, progressed(job, event));
    if (!isProgress(event)) this.refresh();
  }
}
