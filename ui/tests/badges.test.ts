import { expect, test } from "vitest";
import type { Job, Media } from "../src/lib/api";
import { badges } from "../src/lib/badges";
import { advanced } from "../src/lib/media.svelte";

const job = (more: Partial<Job>): Job =>
  ({ id: "job_1", kind: "transcode", state: "queued", status: "queued", stage: null, progress: 0, renditions: [], ...more }) as Job;

const media = (jobs: Job[], more: Partial<Media> = {}): Media =>
  ({ id: "med_1", status: "processing", transcript_status: "none", progress: 0, jobs, ...more }) as Media;

const said = (item: Media) => badges(item).map((each) => each.text);

test("a quiet item has none", () => {
  expect(said(media([], { status: "ready", transcript_status: "ready" }))).toEqual([]);
});

test("what waits says so", () => {
  const speech = job({ id: "job_2", kind: "transcribe" });
  expect(said(media([job({}), speech], { transcript_status: "pending" }))).toEqual([
    "Waiting to be encoded…",
    "Pending transcription…",
  ]);
});

test("an encode says what it makes, how fast and how long yet", () => {
  const running = job({
    state: "processing",
    stage: "transcode",
    progress: 0.631,
    speed: 2.1,
    eta_seconds: 40,
    renditions: [
      { name: "original", status: "completed", progress: 1 },
      { name: "1080p", status: "in_progress", progress: 0.6 },
    ],
  });
  expect(said(media([running]))).toEqual(["Encoding 1080p 63 % · 2.1× · 40 s left"]);
});

test("a divided encode is under way although it waits for its parts", () => {
  const divided = job({ state: "blocked", divided_at: "2026-01-01T00:00:00Z", stage: "transcode", progress: 0.5 });
  expect(said(media([divided]))).toEqual(["Encoding 50 %"]);
});

test("transcriptions tell how far they are, and can be tried again", () => {
  const running = job({ kind: "transcribe", state: "processing", progress: 0.42 });
  expect(said(media([running], { status: "ready", transcript_status: "processing" }))).toEqual(["Transcribing 42 %"]);
  const failed = badges(media([], { status: "ready", transcript_status: "failed" }));
  expect(failed).toEqual([{ text: "Retry transcript", tone: "bad", action: "retry-transcript" }]);
});

test("an encode that failed can be tried again", () => {
  expect(badges(media([], { status: "failed" }))[0]).toMatchObject({ tone: "bad", action: "retry-encode" });
});

test("progress reaches the item without asking the server", () => {
  const before = media([job({ state: "processing", stage: "transcode", progress: 0.1 })]);
  const event = { type: "transcode.progress", job_id: "job_1", status: "processing", progress: 0.5, stage: "transcode" };
  const after = advanced(before, event)!;
  expect(after.progress).toBe(0.5);
  expect(said(after)).toEqual(["Encoding 50 %"]);
  expect(before.jobs[0]!.progress).toBe(0.1);
});

test("what progress cannot tell is asked for", () => {
  const item = media([job({})]);
  expect(advanced(item, { type: "transcode.completed", job_id: "job_1" })).toBeUndefined();
  expect(advanced(item, { type: "transcode.progress", job_id: "job_9" })).toBeUndefined();
});
