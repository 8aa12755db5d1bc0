/** Which events a webhook is told of, as people choose them. Pure. */
export interface Family {
  name: string;
  types: readonly string[];
  admin: boolean;
}

const OF_JOBS = ["queued", "started", "progress", "completed", "failed", "canceled"];

export const families: readonly Family[] = [
  { name: "media", types: ["created", "updated", "ready", "deleted"], admin: false },
  { name: "transcode", types: OF_JOBS, admin: false },
  { name: "transcription", types: OF_JOBS, admin: false },
  { name: "trim", types: OF_JOBS, admin: false },
  { name: "composite", types: OF_JOBS, admin: false },
  { name: "worker", types: ["online", "offline", "busy", "idle", "disabled"], admin: true },
  {
    name: "alert",
    types: [
      "stale_job_recovered",
      "job_max_retries_exceeded",
      "job_failed_pattern",
      "worker_startup",
      "worker_shutdown",
      "webhook_failing",
    ],
    admin: true,
  },
];

export const EVERYTHING = "*";

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

/** Types that no box stands for: kinds of jobs of somebody's own. */
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
  return families.some(
    ({ name, types }) => type === `${name}.*` || types.some((each) => type === `${name}.${each}`),
  );
}
