/** Asking the server for work on a media, and saying what follows. */
import { api, idempotencyKey, ok, type Job, type Media } from "../lib/api";
import { confirm } from "../lib/confirm.svelte";
import { kinds } from "../lib/kinds.svelte";
import { attempt, toasts } from "../lib/toasts.svelte";
import { exportBody, type ExportChoice } from "./options";
import { t } from "./texts";

const path = (media: Media) => ({ path: { media_id: media.id }, header: idempotencyKey() });

export async function trim(media: Media, start: number, end: number | null): Promise<boolean> {
  const body = { start, end, reset: false };
  return attempt(() => ok(api.POST("/api/v1/media/{media_id}/trim", { params: path(media), body })), t.watch.trimStarted);
}

export async function resetEdits(media: Media): Promise<void> {
  if (!(await confirm({ title: t.watch.resetTitle, text: t.watch.resetText, yes: t.watch.resetYes }))) return;
  const body = { start: 0, reset: true };
  await attempt(() => ok(api.POST("/api/v1/media/{media_id}/trim", { params: path(media), body })), t.watch.resetStarted);
}

export async function exportFile(media: Media, choice: ExportChoice): Promise<boolean> {
  const body = exportBody(choice, media.duration ?? null);
  return attempt(() => ok(api.POST("/api/v1/media/{media_id}/exports", { params: path(media), body })), t.watch.exports.started);
}

export async function removeExport(media: Media, id: string): Promise<void> {
  const params = { path: { media_id: media.id, export_id: id } };
  await attempt(() => ok(api.DELETE("/api/v1/media/{media_id}/exports/{export_id}", { params })), t.watch.exports.removed);
}

export async function run(media: Media, kind: string): Promise<void> {
  const body = { kind, args: {} };
  await attempt(() => ok(api.POST("/api/v1/media/{media_id}/jobs", { params: path(media), body })), t.watch.work.started);
}

export const retry = (job: Job): Promise<boolean> => retryJob(job.id);

export async function retryJob(id: string): Promise<boolean> {
  const params = { path: { job_id: id }, header: idempotencyKey() };
  return attempt(() => ok(api.POST("/api/v1/jobs/{job_id}/retry", { params })), t.watch.work.started);
}

/** One that only waits can be had back; one that runs is asked about first. */
export async function cancel(job: Job): Promise<void> {
  const isRunning = job.state === "processing" || Boolean(job.divided_at);
  const what = kinds.label(job.kind);
  const { cancelTitle, cancelText, cancelYes, keepGoing } = t.watch.work;
  if (isRunning && !(await confirm({ title: cancelTitle(what), text: cancelText, yes: cancelYes, no: keepGoing, danger: true }))) return;
  const params = { path: { job_id: job.id } };
  const done = await attempt(() => ok(api.POST("/api/v1/jobs/{job_id}/cancel", { params })));
  if (done && !isRunning) toasts.show(t.watch.work.canceled, { action: { label: t.common.undo, run: () => void retry(job) } });
}
