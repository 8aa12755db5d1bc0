/** What is being done with a media, why it waits, and what went wrong the last time. */
import { api, ok, type Job } from "../lib/api";
import { live } from "../lib/live.svelte";
import { Refresher } from "../lib/media.svelte";

export const MAKES_VERSION = ["transcode", "trim", "composite"];

export interface Waiting {
  position: number | null;
  sentences: string[];
}

/** Places in a queue change with everybody's jobs, of which not everybody is told. */
const ASK_AGAIN_MS = 15_000;
const MOVES = /\.(queued|started|completed|failed|canceled|divided)$/;

export class Work {
  /** Newest first; also those that have ended. */
  recent = $state.raw<Job[]>([]);
  waiting = $state.raw<Record<string, Waiting>>({});

  private refresher = new Refresher(() => this.load());

  constructor(readonly mediaId: string) {}

  start(): () => void {
    void this.load();
    const timer = setInterval(() => !document.hidden && this.recent.some(isWaiting) && void this.askWhy(), ASK_AGAIN_MS);
    const stops = [
      live.on(["*"], (event) => event.media_id === this.mediaId && MOVES.test(event.type) && this.refresher.ask(this.mediaId)),
      live.onReset(() => void this.load()),
    ];
    return () => {
      clearInterval(timer);
      this.refresher.stop();
      stops.forEach((stop) => stop());
    };
  }

  async load(): Promise<void> {
    try {
      const page = await ok(api.GET("/api/v1/jobs", { params: { query: { media_id: this.mediaId, limit: 30 } } }));
      this.recent = page.items.filter((each) => each.kind !== "span");
      await this.askWhy();
    } catch {
      // The page itself says when the server is away.
    }
  }

  private async askWhy(): Promise<void> {
    const asked = this.recent.filter(isWaiting);
    const answers = await Promise.allSettled(
      asked.map((job) => ok(api.GET("/api/v1/jobs/{job_id}/why", { params: { path: { job_id: job.id } } }))),
    );
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
  const sorts = [MAKES_VERSION, ["transcribe"]];
  return sorts.flatMap((kinds) => {
    const last = recent.find((job) => kinds.includes(job.kind));
    return last?.state === "failed" ? [last] : [];
  });
}

/** The last that was meant to make something to watch. */
export function lastMaking(recent: Job[]): Job | undefined {
  return recent.find((job) => MAKES_VERSION.includes(job.kind));
}
