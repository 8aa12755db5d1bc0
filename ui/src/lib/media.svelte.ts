/** Media as the pages keep them: read once, then kept true by events. */
import { api, ok, Problem, type Job, type Media } from "./api";
import type { LiveEvent } from "./live.svelte";
import { live } from "./live.svelte";

const WAIT_MS = 150;
const JOB_FACTS = ["progress", "stage", "attempt", "speed", "eta_seconds", "renditions"] as const;

/** The media with what a job's progress says; nothing when only the server knows what follows. */
export function advanced(media: Media, event: LiveEvent): Media | undefined {
  if (!event.type.endsWith(".progress")) return undefined;
  const at = media.jobs.findIndex((each) => each.id === event.job_id);
  if (at < 0) return undefined;
  const jobs = media.jobs.with(at, progressed(media.jobs[at]!, event));
  const isMaking = jobs[at]!.kind !== "transcribe";
  return { ...media, jobs, ...(isMaking ? { progress: event.progress ?? media.progress } : {}) };
}

export function progressed(job: Job, event: LiveEvent): Job {
  // Speed and time left are those of this very report: what it does not say is unknown.
  const pace = event.type.endsWith(".progress") ? { speed: null, eta_seconds: null } : {};
  const facts = { ...pace, ...Object.fromEntries(JOB_FACTS.filter((name) => name in event).map((name) => [name, event[name]])) };
  return { ...job, ...facts, state: event.status ?? job.state, status: event.status ?? job.status } as Job;
}

/** Keeps reading what has changed, a moment after it did, each only once however many events came. */
export class Refresher {
  private waiting = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private read: (ids: string[]) => Promise<void>) {}

  ask(id: string): void {
    this.waiting.add(id);
    this.timer ??= setTimeout(() => void this.run(), WAIT_MS);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.waiting.clear();
  }

  private async run(): Promise<void> {
    const ids = [...this.waiting];
    this.waiting.clear();
    try {
      await this.read(ids);
    } finally {
      this.timer = undefined;
      if (this.waiting.size) this.timer = setTimeout(() => void this.run(), WAIT_MS);
    }
  }
}

/** One media, for the watch page. */
export class LiveMedia {
  item = $state.raw<Media | null>(null);
  gone = $state(false);
  problem = $state("");

  private refresher = new Refresher(() => this.load());
  private stops: (() => void)[] = [];

  constructor(readonly id: string) {}

  start(): () => void {
    void this.load();
    this.stops = [
      live.on(["*"], (event) => this.hear(event)),
      live.onReset(() => void this.load()),
    ];
    return () => {
      this.stops.forEach((stop) => stop());
      this.refresher.stop();
    };
  }

  async load(): Promise<void> {
    try {
      this.item = await ok(api.GET("/api/v1/media/{media_id}", { params: { path: { media_id: this.id } } }));
      this.problem = "";
      this.gone = false;
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.gone = true;
      else this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  private hear(event: LiveEvent): void {
    if (event.media_id !== this.id || event.type.endsWith(".passage")) return;
    if (event.type === "media.deleted") {
      this.gone = true;
      return;
    }
    const next = this.item && advanced(this.item, event);
    if (next) this.item = next;
    else this.refresher.ask(this.id);
  }
}
