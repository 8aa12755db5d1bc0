/** What people do to jobs: one, or all that fit. */
import { api, idempotencyKey, ok, type Job } from "../lib/api";
import { confirm } from "../lib/confirm.svelte";
import type { components } from "../lib/schema";
import { toasts } from "../lib/toasts.svelte";
import { t } from "./texts";

type Wanted = components["schemas"]["Wanted"];

export function cancel(id: string): Promise<Job> {
  return ok(api.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: id } } }));
}

export function retry(id: string): Promise<Job> {
  return ok(api.POST("/api/v1/jobs/{job_id}/retry", { params: { path: { job_id: id }, header: idempotencyKey() } }));
}

export type Priority = components["schemas"]["JobChange"]["priority"];

export function doNext(id: string): Promise<Job> {
  return ok(api.POST("/api/v1/jobs/{job_id}/next", { params: { path: { job_id: id } } }));
}

export function prioritize(id: string, priority: Priority): Promise<Job> {
  return ok(api.PATCH("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, body: { priority } }));
}

export async function pause(kind: string): Promise<string[]> {
  return (await ok(api.POST("/api/v1/queue/pause", { body: { kind } }))).paused;
}

export async function resume(kind: string): Promise<string[]> {
  return (await ok(api.POST("/api/v1/queue/resume", { body: { kind } }))).paused;
}

const ASKED = {
  cancel: () => ({ title: t.queue.bulk.cancelTitle, text: t.queue.bulk.cancelText, yes: t.queue.bulk.cancelYes, done: t.queue.bulk.canceledMany }),
  retry: () => ({ title: t.queue.bulk.retryTitle, text: t.queue.bulk.retryText, yes: t.queue.bulk.retryYes, done: t.queue.bulk.retriedMany }),
};

/** Says how many it would be, asks, does it. Returns whether it was done. */
export async function actOnAll(action: "cancel" | "retry", filter: Wanted): Promise<boolean> {
  const words = ASKED[action]();
  try {
    const { matched } = await act(action, filter, true);
    if (!matched) {
      toasts.show(t.queue.bulk.none);
      return false;
    }
    const isMost = matched >= 10_000;
    const text = isMost ? `${words.text} ${t.queue.bulk.most}` : words.text;
    const answer = action === "cancel" ? { danger: true, no: t.queue.bulk.cancelNo } : {};
    if (!(await confirm({ title: words.title(matched), text, yes: words.yes(matched), ...answer }))) return false;
    const { changed } = await act(action, filter, false);
    toasts.good(words.done(changed));
    return true;
  } catch (error) {
    toasts.bad(error);
    return false;
  }
}

function act(action: "cancel" | "retry", filter: Wanted, dry_run: boolean) {
  return ok(api.POST("/api/v1/jobs/actions", { params: { header: idempotencyKey() }, body: { action, filter, dry_run } }));
}
