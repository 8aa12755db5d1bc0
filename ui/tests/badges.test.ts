import { expect, test } from "vitest";
import "./known-kinds";
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

test("what can be watched while it is made says so first", () => {
  const running = job({ state: "processing", stage: "transcode", progress: 0.63 });
  const growing = { stream_url: "/api/v1/media/med_1/stream/master.m3u8" };
  expect(said(media([running], growing))).toEqual(["Ready to watch · other qualities 63 %"]);
  expect(said(media([job({ state: "queued" })], growing))).toEqual(["Ready to watch · other qualities later"]);
  // Who makes a new version of it had something to watch before.
  expect(said(media([running], { ...growing, status: "ready" }))).toEqual(["Encoding 63 %"]);
});

test("a divided encode is under way although it waits for its parts", () => {
  const divided = job({ state: "blocked", divided_at: "2026-01-01T00:00:00Z", stage: "transcode", progress: 0.5 });
  expect(said(media([divided]))).toEqual(["Encoding 50 %"]);
});

test("transcriptions tell how far they are, and can be tried again", () => {
  const running = job({ kind: "transcribe", state: "processing", progress: 0.42 });
  expect(said(media([running], { status: "ready", transcript_status: "processing" }))).toEqual(["Transcribing 42 %"]);
  const failed = badges(media([], { status: "ready", transcript_status: "failed", can_retry_transcript: true }));
  expect(failed).toEqual([{ text: "Retry transcript", tone: "bad", action: "retry-transcript" }]);
});

test("an encode that failed can be tried again", () => {
  expect(badges(media([], { status: "failed", can_retry: true }))[0]).toMatchObject({ tone: "bad", action: "retry-encode" });
});

test("what is wrong with a recording is said once, and nobody is asked to try again", () => {
  const error = "the file is damaged";
  const both = { error, can_retry: false, transcript_error: error, can_retry_transcript: false };
  const failed = media([], { status: "failed", transcript_status: "failed", ...both });
  expect(badges(failed)).toEqual([{ text: "The file is damaged", tone: "bad" }]);
  const waiting = media([job({})], { status: "pending", transcript_status: "failed", ...both });
  expect(badges(waiting)).toEqual([
    { text: "Waiting to be encoded…", tone: "wait" },
    { text: "No transcript: the file is damaged", tone: "bad" },
  ]);
});

test("progress reaches the item without asking the server", () => {
  const before = media([job({ state: "processing", stage: "transcode", progress: 0.1 })]);
  const event = { type: "transcode.progress", job_id: "job_1", status: "processing", progress: 0.5, stage: "transcode" };
  const after = advanced(before, event)!;
  expect(after.progress).toBe(0.5);
  expect(said(after)).toEqual(["Encoding 50 %"]);
  expect(before.jobs[0]!.progress).toBe(0.1);
});

test("a report that does not say what is left leaves it unknown", () => {
  const before = media([job({ kind: "transcribe", state: "processing", stage: "transcribing", speed: 1.9, eta_seconds: 0.4 })]);
  const event = { type: "transcription.progress", job_id: "job_1", status: "processing", progress: 0.7, stage: "diarizing" };
  const [after] = advanced(before, event)!.jobs;
  expect([after!.stage, after!.speed, after!.eta_seconds]).toEqual(["diarizing", null, null]);
});

test("what progress cannot tell is asked for", () => {
  const item = media([job({})]);
  expect(advanced(item, { type: "transcode.completed", job_id: "job_1" })).toBeUndefined();
  expect(advanced(item, { type: "transcode.progress", job_id: "job_9" })).toBeUndefined();
});
