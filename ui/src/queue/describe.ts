/** Jobs and their attempts in words. Pure. */
import type { Execution, Job } from "../lib/api";
import { ago, percent, span, speed } from "../lib/format";
import { kinds } from "../lib/kinds.svelte";
import { t } from "./texts";

export type Tone = "plain" | "good" | "busy" | "wait" | "bad";

const TONES: Record<string, Tone> = {
  queued: "wait",
  processing: "busy",
  completed: "good",
  failed: "bad",
};
const OUTCOME_TONES: Record<string, Tone> = {
  succeeded: "good",
  failed: "bad",
  lost: "bad",
  stalled: "bad",
  running: "busy",
};

export const toneOf = (state: string): Tone => TONES[state] ?? "plain";
export const outcomeTone = (outcome: string): Tone => OUTCOME_TONES[outcome] ?? "plain";
export const kindOf = (kind: string): string => kinds.label(kind);
export const isLive = (job: Job): boolean => ["blocked", "queued", "processing"].includes(job.state);

export function stateOf(job: Job): string {
  if (job.state === "processing" && job.cancel_requested_at) return t.queue.canceling;
  return t.states[job.state] ?? job.state;
}

export function stageOf(stage: string | null): string {
  return stage ? (t.queue.drawer.stages[stage] ?? stage) : "";
}

/** It has a place in line that can be changed; a divided job's is that of its parts. */
export function isWaiting(job: Job): boolean {
  return job.state === "queued" || job.state === "blocked";
}

/** Whether there is a bar to show: also for one whose parts are being worked on. */
export function isMoving(job: Job): boolean {
  return job.state === "processing" || (job.state === "blocked" && Boolean(job.divided_at));
}

/** "42 % · 3.1× · 2 min left" */
export function progressOf(job: Job): string {
  const words = [percent(job.progress)];
  if (job.speed) words.push(speed(job.speed));
  if (job.eta_seconds) words.push(t.queue.drawer.left(span(job.eta_seconds)));
  return words.join(" · ");
}

export function endedAt(job: Job): string | null {
  return job.completed_at ?? job.failed_at ?? job.canceled_at;
}

/** How long a job that is done has taken. */
export function tookOf(job: Job): string {
  if (job.state !== "completed" || !job.started_at || !job.completed_at) return "";
  return t.queue.drawer.took(span((Date.parse(job.completed_at) - Date.parse(job.started_at)) / 1000));
}

/** How long it waits, runs, or how long ago it ended. */
export function whenOf(job: Job, now: number): string {
  if (job.state === "processing") return t.queue.runsFor(since(job.claimed_at ?? job.started_at, now));
  const ended = endedAt(job);
  if (ended && !isLive(job)) return ago(ended, now);
  const wait = job.run_at ? Date.parse(job.run_at) - now : 0;
  if (job.state === "queued" && wait > 1000) return t.queue.startsIn(span(wait / 1000));
  return t.queue.waitsFor(since(job.queued_at ?? job.created_at, now));
}

function since(at: string | null, now: number): string {
  return span(at ? Math.max(0, now - Date.parse(at)) / 1000 : 0);
}

/** Seconds until the lease is over; nothing without one. */
export function leaseLeft(job: Job, now: number): number | undefined {
  if (job.state !== "processing" || !job.claim_expires_at) return undefined;
  return Math.max(0, Math.ceil((Date.parse(job.claim_expires_at) - now) / 1000));
}

export function outcomeOf(execution: Execution): string {
  return execution.outcome ?? "running";
}

export function durationOf(execution: Execution, now: number): string {
  const from = execution.started_at ? Date.parse(execution.started_at) : now;
  const to = execution.ended_at ? Date.parse(execution.ended_at) : now;
  const words = span(Math.max(0, to - from) / 1000);
  return execution.ended_at ? t.queue.drawer.took(words) : t.queue.drawer.since(words);
}

/** "nvenc?" is preferred, "gpu" is required. */
export function needOf(need: string): string {
  return need.endsWith("?") ? t.queue.drawer.prefers(need.slice(0, -1)) : need;
}
