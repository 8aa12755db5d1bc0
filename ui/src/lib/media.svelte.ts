/** Media as the pages keep them: read once, then kept true by events. */
import { api, ok, Problem, type Job, type Media } from "./api";
import { kinds } from "./kinds.svelte";
import { isProgress, type LiveEvent } from "./live.svelte";
import { LiveData } from "./live-data.svelte";

const JOB_FACTS = ["progress", "stage", "attempt", "speed", "eta_seconds", "renditions"] as const;

/** The media with what a job's progress says; nothing when only the server knows what follows. */
export function advanced(media: Media, event: LiveEvent): Media | undefined {
  if (!isProgress(event)) return undefined;
  const at = media.jobs.findIndex((each) => each.id === event.job_id);
  if (at < 0) return undefined;
  const jobs = media.jobs.with(at, progressed(media.jobs[at]!, event));
  const isMaking = kinds.makes(jobs[at]!.kind, "watch");
  return { ...media, jobs, ...(isMaking ? { progress: event.progress ?? media.progress } : {}) };
}

export function progressed(job: Job, event: LiveEvent): Job {
  // Speed and time left are those of this very report: what it does not say is unknown.
  const pace = isProgress(event) ? { speed: null, eta_seconds: null } : {};
  const facts = { ...pace, ...Object.fromEntries(JOB_FACTS.filter((name) => name in event).map((name) => [name, event[name]])) };
  return { ...job, ...facts, state: event.status ?? job.state, status: event.status ?? job.status } as Job;
}

/** One media, for the watch page. */
export class LiveMedia extends LiveData<Media> {
  item = $state.raw<Media | null>(null);
  gone = $state(false);

  constructor(readonly id: string) {
    super();
  }

  protected override fetch(): Promise<Media> {
    return ok(api.GET("/api/v1/media/{media_id}", { params: { path: { media_id: this.id } } }));
  }

  protected override apply(media: Media): void {
    this.item = media;
    this.gone = false;
  }

  protected override onError(error: unknown): void {
    if (error instanceof Problem && error.status === 404) this.gone = true;
    else super.onError(error);
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.media_id !== this.id) return;
    if (event.type === "media.deleted") {
      this.invalidate();
      this.gone = true;
      return;
    }
    const next = this.item && advanced(this.item, event);
    if (next) this.item = next;
    else this.refresh();
  }
}
