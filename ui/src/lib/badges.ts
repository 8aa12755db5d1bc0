/** What an item is doing, in words people understand. */
import type { Job, Media } from "./api";
import { capital, percent, span, speed } from "./format";
import { kinds } from "./kinds.svelte";
import { t } from "./texts";

export interface Badge {
  text: string;
  tone: "busy" | "wait" | "bad";
  /** 0 to 1, when there is something to show of it. */
  progress?: number;
  /** What clicking it would do. */
  action?: "retry-transcript" | "retry-encode" | "retry-job";
  /** The one to try again. */
  jobId?: string;
}

export function badges(media: Media): Badge[] {
  return [picture(media), speech(media), ...own(media)].filter((each) => each !== undefined);
}

function picture(media: Media): Badge | undefined {
  const job = media.jobs.find((each) => kinds.makes(each.kind, "watch"));
  if (job) return isGrowing(media) ? watchable(job) : encoding(job);
  if (media.status !== "failed") return undefined;
  if (!media.can_retry) return { text: capital(media.error ?? t.badges.failed), tone: "bad" };
  return { text: t.badges.failed, tone: "bad", action: "retry-encode" };
}

/** Its first version is still being made, and can be watched already. */
function isGrowing(media: Media): boolean {
  return Boolean(media.stream_url) && media.status !== "ready";
}

function watchable(job: Job): Badge {
  if (!isRunning(job)) return { text: `${t.badges.watchable} · ${t.badges.laterQualities}`, tone: "wait" };
  const parts = [t.badges.watchable, ...(job.progress ? [t.badges.moreQualities(percent(job.progress))] : [])];
  return { text: parts.join(" · "), tone: "busy", progress: job.progress };
}

function isRunning(job: Job): boolean {
  return job.state === "processing" || Boolean(job.divided_at);
}

function encoding(job: Job): Badge {
  if (!isRunning(job)) return { text: t.badges.waiting, tone: "wait" };
  if (job.stage === "master_playlist" || job.stage === "finalize") {
    return { text: t.badges.finishing, tone: "busy", progress: job.progress };
  }
  if (job.stage === "probe" || job.stage === null) return { text: t.badges.starting, tone: "busy", progress: job.progress };
  const parts = [`${verb(job)} ${percent(job.progress)}`];
  if (job.speed) parts.push(speed(job.speed));
  if (job.eta_seconds) parts.push(t.badges.left(span(job.eta_seconds)));
  return { text: parts.join(" · "), tone: "busy", progress: job.progress };
}

function verb(job: Job): string {
  const best = (job.renditions ?? []).find((each) => each.status === "in_progress" && each.name !== "original");
  return t.badges.editing[job.kind] ?? t.badges.encoding(best?.name ?? "");
}

/** What jobs of one's own kinds do, or could not do. */
function own(media: Media): Badge[] {
  return (media.outputs ?? []).flatMap((output): Badge[] => {
    if (output.status === "processing") {
      return [{ text: t.badges.own(output.label, percent(output.progress)), tone: "busy", progress: output.progress }];
    }
    if (output.status !== "failed") return [];
    const failed: Badge = { text: t.badges.ownFailed(output.label), tone: "bad" };
    return [output.can_retry ? { ...failed, action: "retry-job", jobId: output.job_id } : failed];
  });
}

function speech(media: Media): Badge | undefined {
  const job = media.jobs.find((each) => kinds.makes(each.kind, "transcript"));
  if (media.transcript_status === "failed" && !media.can_retry_transcript) {
    // What is wrong with a recording is said once.
    return media.status === "failed" ? undefined : { text: t.badges.noTranscript(media.transcript_error ?? ""), tone: "bad" };
  }
  if (media.transcript_status === "failed") {
    return { text: t.badges.retryTranscript, tone: "bad", action: "retry-transcript" };
  }
  if (job?.state === "processing") {
    return { text: t.badges.transcribing(percent(job.progress)), tone: "busy", progress: job.progress };
  }
  if (job || media.transcript_status === "pending") return { text: t.badges.pendingTranscript, tone: "wait" };
  return undefined;
}
