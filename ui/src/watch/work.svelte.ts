/** What is being done with a media, why it waits, and what went wrong the last time. */
import { api, ok, type Job } from "../lib/api";
import type { LiveEvent } from "../lib/live.svelte";
import { kinds, type Slot } from "../lib/kinds.svelte";
import { LiveData } from "../lib/live-data.svelte";

export interface Waiting {
  position: number | null;
  sentences: string[];
}

/** Places in a queue change with everybody's jobs, of which not everybody is told. */
const ASK_AGAIN_MS = 15_000;
const MOVES = /\.(queued|started|completed|failed|canceled|divided)$/;

export class Work extends LiveData<Job[]> {
  /** Newest first; also those that have ended. */
  recent = $state.raw<Job[]>([]);
  waiting = $state.raw<Record<string, Waiting>>({});

  constructor(readonly mediaId: string) {
    super({ pollMs: ASK_AGAIN_MS });
  }

  protected override async fetch(): Promise<Job[]> {
    // The parts of a long encode would leave no room for other jobs.
    const query = { media_id: this.mediaId, limit: 30, not_kind: kinds.housekeeping.join(",") };
    return (await ok(api.GET("/api/v1/jobs", { params: { query } }))).items;
  }

  protected override apply(jobs: Job[]): void {
    this.recent = jobs;
    void this.readWhy();
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.media_id === this.mediaId && MOVES.test(event.type)) this.refresh();
  }

  protected override onPoll(): void {
    if (this.recent.some(isWaiting)) void this.readWhy();
  }

  private async readWhy(): Promise<void> {
    const counts = this.stillCounts();
    const asked = this.recent.filter(isWaiting);
    const answers = await Promise.allSettled(
      asked.map((job) => ok(api.GET("/api/v1/jobs/{job_id}/why", { params: { path: { job_id: job.id } } }))),
    );
    if (!counts()) return;
    const found = answers.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    this.waiting = Object.fromEntries(
      found.map(({ id, position, reasons }) => [
        id,
        { position: position ?? null, sentences: reasons.map((each) => String(each["sentence"] ?? "")).filter(Boolean) },
      ]),
    );
  }
}

export function isWaiting(job: Job): boolean {
  return job.state === "queued" || job.state === "blocked";
}

/** The last of each sort of work, if it did not end well and nothing newer is under way. */
export function failuresOf(recent: Job[]): Job[] {
  const lasts = [lastMaking(recent, "watch"), lastMaking(recent, "transcript")];
  return lasts.filter((job) => job?.state === "failed") as Job[];
}

export function lastMaking(recent: Job[], slot: Slot): Job | undefined {
  return recent.find((job) => kinds.makes(job.kind, slot));
}
