/** One job with all that is known of it, while somebody looks at it. */
import { api, ok, Problem, type Execution, type Job } from "../lib/api";
import { Debouncer } from "../lib/debounce";
import { isProgress, type LiveEvent } from "../lib/live.svelte";
import { LiveData } from "../lib/live-data.svelte";
import { progressed } from "../lib/media.svelte";
import type { components } from "../lib/schema";
import { isLive } from "./describe";

export type Why = components["schemas"]["Why"];

const WHY_GAP_MS = 2_000;
const RELATED = 200;

interface Answers {
  job: Job;
  executions: Execution[];
  why: Why;
}

export class JobDetail extends LiveData<Answers> {
  job = $state.raw<Job | null>(null);
  executions = $state.raw<Execution[]>([]);
  why = $state.raw<Why | null>(null);
  /** Other jobs of the same recording that have to do with this one. */
  related = $state.raw<Job[]>([]);
  isGone = $state(false);

  private whyDebouncer = new Debouncer(() => this.readWhy(), 120, WHY_GAP_MS);

  constructor(readonly id: string) {
    // Leases are renewed, and waits end, without an event.
    super({ waitMs: 60, gapMs: 300, pollMs: 10_000 });
  }

  override start(): () => void {
    const stop = super.start();
    return () => {
      stop();
      this.whyDebouncer.stop();
    };
  }

  put(job: Job): void {
    this.job = job;
    this.refresh();
  }

  protected override async fetch(): Promise<Answers> {
    const path = this.path;
    const [job, executions, why] = await Promise.all([
      ok(api.GET("/api/v1/jobs/{job_id}", path)),
      ok(api.GET("/api/v1/jobs/{job_id}/executions", path)),
      ok(api.GET("/api/v1/jobs/{job_id}/why", path)),
    ]);
    return { job, executions: executions.items, why };
  }

  protected override apply({ job, executions, why }: Answers): void {
    this.job = job;
    this.executions = executions;
    this.why = why;
    void this.readRelated(job);
  }

  protected override onError(error: unknown): void {
    if (error instanceof Problem && error.status === 404) this.isGone = true;
    else super.onError(error);
  }

  protected override onPoll(): void {
    if (!this.job || isLive(this.job)) this.refresh();
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.job_id === this.id) {
      if (this.job) this.job = progressed(this.job, event);
      if (!isProgress(event)) this.refresh();
    } else if (isProgress(event)) {
      return;
    } else if (this.isWaiting && (event.job_id || event.type.startsWith("worker."))) {
      this.whyDebouncer.schedule();
    } else if (this.related.some((each) => each.id === event.job_id)) {
      this.refresh();
    }
  }

  private get path() {
    return { params: { path: { job_id: this.id } } };
  }

  private async readRelated(job: Job): Promise<void> {
    if (!job.media_id) return;
    const counts = this.stillCounts();
    const query = { media_id: job.media_id, limit: RELATED };
    try {
      const page = await ok(api.GET("/api/v1/jobs", { params: { query } }));
      if (counts()) this.related = page.items.filter((each) => each.id !== job.id);
    } catch (error) {
      if (counts()) this.onError(error);
    }
  }

  private async readWhy(): Promise<void> {
    const counts = this.stillCounts();
    try {
      const why = await ok(api.GET("/api/v1/jobs/{job_id}/why", this.path));
      if (counts()) this.why = why;
    } catch {
      // The next look tells.
    }
  }

  private get isWaiting(): boolean {
    return this.job?.state === "queued" || this.job?.state === "blocked";
  }
}
