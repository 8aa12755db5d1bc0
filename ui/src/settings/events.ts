/** Which events a webhook is told of, as people choose them. */
import { kinds } from "../lib/kinds.svelte";

export interface Family {
  name: string;
  types: readonly string[];
  admin: boolean;
}

const OF_JOBS = ["queued", "started", "progress", "completed", "failed", "canceled"];

const OF_ALERTS = [
  "stale_job_recovered",
  "job_max_retries_exceeded",
  "job_failed_pattern",
  "worker_startup",
  "worker_shutdown",
  "webhook_failing",
];

export function families(): Family[] {
  return [
    { name: "media", types: ["created", "updated", "watchable", "ready", "deleted"], admin: false },
    ...kinds.families.map((name) => ({ name, types: OF_JOBS, admin: false })),
    { name: "worker", types: ["online", "offline", "busy", "idle", "disabled"], admin: true },
    { name: "alert", types: OF_ALERTS, admin: true },
  ];
}

export const EVERYTHING = "*";

/** For who begins to choose: that a recording is ready, and that a job has failed. */
export function suggested(): string[] {
  return ["media.ready", ...kinds.families.map((name) => `${name}.failed`)];
}

/** Progress comes many times a minute: only who names it gets it, also within `transcode.*`. */
export function isFrequent(type: string): boolean {
  return type.endsWith(".progress");
}

export function isChosen(chosen: readonly string[], family: string, name: string): boolean {
  const type = `${family}.${name}`;
  return chosen.includes(type) || (chosen.includes(`${family}.*`) && !isFrequent(type));
}

export function switched(chosen: readonly string[], pattern: string, on: boolean): string[] {
  const rest = chosen.filter((each) => each !== pattern && !(on && covers(pattern, each)));
  return on ? [...rest, pattern] : rest;
}

/** Types that no box stands for: kinds that only a worker knows. */
export function others(chosen: readonly string[]): string[] {
  return chosen.filter((each) => each !== EVERYTHING && !hasBox(each));
}

export function withOthers(chosen: readonly string[], text: string): string[] {
  const own = text.split(/[\s,]+/).filter(Boolean);
  return [...new Set([...chosen.filter((each) => each === EVERYTHING || hasBox(each)), ...own])];
}

function covers(pattern: string, type: string): boolean {
  return pattern.endsWith(".*") && type.startsWith(pattern.slice(0, -1)) && !isFrequent(type);
}

function hasBox(type: string): boolean {
  return families().some(
    ({ name, types }) => type === `${name}.*` || types.some((each) => type === `${name}.${each}`),
  );
}
