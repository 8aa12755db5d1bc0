/** A list that others change while somebody reads it. Pure. */
import type { Job, QueueStats } from "../lib/api";
import { isMoving } from "./describe";
import { isShown, type OfKinds } from "./filters";

export interface Merged {
  rows: Job[];
  /** New ones that would move what is being read. */
  held: Job[];
}

/** What is shown with what the first page says now. While somebody reads, nothing comes or goes.
`isComplete`: there is no page after it. */
export function merged(rows: Job[], page: { items: Job[]; isComplete: boolean }, isReading: boolean): Merged {
  const fresh = new Map(page.items.map((job) => [job.id, job]));
  if (isReading) {
    const shown = new Set(rows.map((job) => job.id));
    return {
      rows: rows.map((job) => fresh.get(job.id) ?? job),
      held: page.items.filter((job) => !shown.has(job.id)),
    };
  }
  const last = page.items.at(-1)?.id;
  const older = page.isComplete || last === undefined ? [] : rows.filter((job) => job.id < last && !fresh.has(job.id));
  return { rows: [...page.items, ...older], held: [] };
}

/** Those that run, then the others; newest first, as the server lists them. */
export function runningFirst(rows: Job[]): Job[] {
  const rank = (job: Job) => (isMoving(job) ? 0 : 1);
  return rows.toSorted((one, other) => rank(one) - rank(other) || (one.id < other.id ? 1 : -1));
}

/** By the job that was retried: the one that took its place. Newest first, so the first one counts. */
export function retriedBy(rows: Job[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const job of rows) {
    if (job.retry_of && !found.has(job.retry_of)) found.set(job.retry_of, job.id);
  }
  return found;
}

/** How many jobs each state has, of the kinds that are shown. */
export function counts(stats: QueueStats | null, filters: OfKinds): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const [kind, states] of Object.entries(stats?.kinds ?? {})) {
    if (!isShown(kind, filters)) continue;
    for (const [state, count] of Object.entries(states)) sums[state] = (sums[state] ?? 0) + count;
  }
  return sums;
}

/** The neighbour of a job in the list; without one to begin with, the first. */
export function neighbour(rows: Job[], id: string | undefined, step: 1 | -1): Job | undefined {
  const at = rows.findIndex((job) => job.id === id);
  return at < 0 ? rows[0] : rows[at + step];
}
