/** What became of jobs over time: figures for the charts, and the same in words. Pure. */
import { count, span, time, weekdayTime } from "../lib/format";
import type { components } from "../lib/schema";
import { t } from "./texts";

export const RANGES = [1, 6, 24, 168] as const;
export type Range = (typeof RANGES)[number];

export type History = components["schemas"]["QueueHistory"];
export type Bucket = components["schemas"]["QueueBucket"];

type Counted = "completed" | "failed" | "canceled";

export function total(items: Bucket[], name: Counted): number {
  return items.reduce((sum, each) => sum + each[name], 0);
}

/** Weighted by how many ended: one slow job at night does not make a slow day. */
export function mean(items: Bucket[], name: "wait_seconds" | "run_seconds"): number | null {
  let sum = 0;
  let weight = 0;
  for (const each of items) {
    const value = each[name];
    if (value === null) continue;
    const ended = Math.max(1, each.completed + each.failed);
    sum += value * ended;
    weight += ended;
  }
  return weight ? sum / weight : null;
}

export function throughputText(history: History, range: Range): string {
  const words = t.queue.charts.throughputText(total(history.items, "completed"), t.queue.charts.spans[range]!);
  const best = history.items.reduce<Bucket | undefined>(
    (most, each) => (each.completed > (most?.completed ?? 0) ? each : most),
    undefined,
  );
  return best && best.completed > 1 ? `${words}; ${t.queue.charts.mostAt(best.completed, moment(best.at, range))}` : words;
}

export function failuresText(history: History, range: Range): string {
  const { items } = history;
  return t.queue.charts.failuresText(total(items, "failed"), total(items, "canceled"), t.queue.charts.spans[range]!);
}

export function timesText(history: History, range: Range): string {
  const wait = mean(history.items, "wait_seconds");
  const run = mean(history.items, "run_seconds");
  if (wait === null && run === null) return t.queue.charts.timesNone(t.queue.charts.spans[range]!);
  return t.queue.charts.timesText(span(wait ?? 0), span(run ?? 0));
}

export function moment(at: string | number | null, range: Range): string {
  return (range < 168 ? time : weekdayTime)(at);
}

/** One bucket in words, for who points at it. */
export function bucketText(bucket: Bucket, range: Range, names: Counted[]): string {
  const words = names.filter((name) => bucket[name]).map((name) => `${count(bucket[name])} ${LABELS[name]()}`);
  return t.queue.charts.at(moment(bucket.at, range), words.join(", ") || t.queue.charts.nothing);
}

const LABELS: Record<Counted, () => string> = {
  completed: () => t.queue.charts.done.toLowerCase(),
  failed: () => t.queue.charts.failed.toLowerCase(),
  canceled: () => t.queue.charts.canceled.toLowerCase(),
};

export function bucketTimes(bucket: Bucket, range: Range): string {
  const words = [
    bucket.wait_seconds === null ? "" : `${t.queue.charts.wait.toLowerCase()} ${span(bucket.wait_seconds)}`,
    bucket.run_seconds === null ? "" : `${t.queue.charts.run.toLowerCase()} ${span(bucket.run_seconds)}`,
  ].filter(Boolean);
  return t.queue.charts.at(moment(bucket.at, range), words.join(", ") || t.queue.charts.nothing);
}
