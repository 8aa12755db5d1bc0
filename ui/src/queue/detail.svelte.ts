/** One job with all that is known of it, while somebody looks at it. */
import { api, ok, Problem, sentenceOf, type Execution, type Job } from "../lib/api";
import { live, type LiveEvent } from "../lib/live.svelte";
import { progressed } from "../lib/media.svelte";
import type { components } from "../lib/schema";
import { isLive } from "./describe";
import { Paced, whileSeen } from "./paced";

export type Why = components["schemas"]["Why"];

const GAP_MS = 300;
const WHY_GAP_MS = 2_000;
// Leases are renewed, and waits end, without an event.
const LOOK_MS = 10_000;
const RELATED = 200;

export class JobDetail {
  job = $state.raw<Job | null>(null);
  executions = $state.raw<Execution[]>([]);
  why = $state.raw<Why | null>(null);
  /** Other jobs of the same recording that have to do with this one. */
  related = $state.raw<Job[]>([]);
  isGone = $state(false);
  problem = $state("");

  private paced = new Paced(() => this.load(), GAP_MS, 60);
  private explained = new Paced(() => this.explain(), WHY_GAP_MS);

  constructor(readonly id: string) {}

  start(): () => void {
    void this.load();
    const stops = [
      live.on(["*"], (event) => this.hear(event)),
      live.onReset(() => this.paced.ask()),
      whileSeen(() => {
        if (!this.job || isLive(this.job)) this.paced.ask();
      }, LOOK_MS),
    ];
    return () => {
      stops.forEach((stop) => stop());
      this.paced.stop();
      this.explained.stop();
    };
  }

  put(job: Job): void {
    this.job = job;
    this.paced.ask();
  }

  async load(): Promise<void> {
    const path = { params: { path: { job_id: this.id } } };
    try {
      const [job, executions, why] = await Promise.all([
        ok(api.GET("/api/v1/jobs/{job_id}", path)),
        ok(api.GET("/api/v1/jobs/{job_id}/executions", path)),
        ok(api.GET("/api/v1/jobs/{job_id}/why", path)),
      ]);
      this.job = job;
      this.executions = executions.items;
      this.why = why;
      this.problem = "";
      await this.relate(job);
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.isGone = true;
      else this.problem = sentenceOf(error);
    }
  }

  private async relate(job: Job): Promise<void> {
    if (!job.media_id) return;
    const query = { media_id: job.media_id, limit: RELATED };
    const page = await ok(api.GET("/api/v1/jobs", { params: { query } }));
    this.related = page.items.filter((each) => each.id !== job.id);
  }

  private async explain(): Promise<void> {
    try {
      this.why = await ok(api.GET("/api/v1/jobs/{job_id}/why", { params: { path: { job_id: this.id } } }));
    } catch {
      // The next look tells.
    }
  }

  private hear(event: LiveEvent): void {
    if (event.type.endsWith(".passage")) return;
    const isProgress = event.type.endsWith(".progress");
    if (event.job_id === this.id) {
      if (this.job) this.job = progressed(this.job, event);
      if (!isProgress) this.paced.ask();
    } else if (!isProgress && this.isWaiting && (event.job_id || event.type.startsWith("worker."))) {
      this.explained.ask();
    } else if (!isProgress && this.related.some((each) => each.id === event.job_id)) {
      this.paced.ask();
    }
  }

  private get isWaiting(): boolean {
    return this.job?.state === "queued" || this.job?.state === "blocked";
  }
}
