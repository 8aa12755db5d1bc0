/** One file on its way to the server. */
import type * as Tus from "tus-js-client";
import { forget, remember, type Handle } from "./handles";
import { metadataOf, type UploadOptions } from "./options.svelte";
import { Pace } from "./pace";
import { Refusal, RETRY_DELAYS, sentence, settles, verdict } from "./refusal";
import { t } from "./texts";

export type UploadState = "queued" | "sending" | "waiting" | "paused" | "failed" | "done" | "canceled";

const ENDPOINT = "/api/v1/uploads";
/** Small enough for what stands between browsers and servers, and cuts long bodies off. */
const CHUNK_BYTES = 64 * 2 ** 20;
/** A question that was sent so lately is left to be answered. */
const FRESH_MS = 5_000;
const STALLED_MS = 60_000;

/** The same file of the same user, whenever it is given. */
export function fingerprint(owner: string, file: { name: string; size: number; lastModified: number }): string {
  return `rushes-${owner}-${file.size}-${file.lastModified}-${file.name}`;
}

export interface Ends {
  changed: () => void;
  signedOut: () => void;
}

let next = 1;

export class Upload {
  readonly id = next++;
  readonly mark: string;
  state = $state<UploadState>("queued");
  sent = $state(0);
  speed = $state(0);
  problem = $state("");
  mediaId = $state<string>();
  duplicateOf = $state<string>();
  /** The same file, deleted before. */
  inTrash = $state<string>();
  /** The media can be watched. */
  ready = $state(false);
  private sender: Tus.Upload | undefined;
  private pace = new Pace();
  private askedAt = -Infinity;
  private watchdog: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly file: File,
    owner: string,
    private options: UploadOptions & { folder: string },
    private ends: Ends,
    private handle?: Handle,
  ) {
    this.mark = fingerprint(owner, file);
  }

  get isUnderWay(): boolean {
    return this.state === "sending" || this.state === "waiting";
  }

  get isOpen(): boolean {
    return this.isUnderWay || this.state === "queued" || this.state === "paused";
  }

  async start(): Promise<void> {
    this.state = "sending";
    this.problem = "";
    try {
      this.sender ??= await this.prepare();
    } catch {
      // The part of the pages that can upload did not come.
      this.fail(t.problems.offline);
      return;
    }
    if (this.isUnderWay) this.sender.start();
  }

  /** Keeps what is there already. */
  stop(state: "queued" | "paused" | "canceled"): void {
    this.state = state;
    this.rest();
    void this.sender?.abort();
  }

  /** Tries at once instead of when the wait is over. */
  again(): void {
    const isAsking = performance.now() - this.askedAt < FRESH_MS;
    if (this.state === "waiting" && !isAsking) this.restart();
  }

  private restart(): void {
    void this.sender?.abort();
    this.sender?.start();
  }

  /** A line can be dead without a word: when nothing moves for long, we come anew. */
  private watch(): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => {
      if (this.state !== "sending" || this.sent >= this.file.size) return;
      this.state = "waiting";
      this.rest();
      this.restart();
    }, STALLED_MS);
  }

  /** Takes away what is on the server. */
  async discard(): Promise<void> {
    void forget(this.mark);
    // Whatever remains there ends by itself after a while.
    await this.sender?.abort(true).catch(() => {});
  }

  get url(): string | undefined {
    return this.sender?.url ?? undefined;
  }

  private async prepare(): Promise<Tus.Upload> {
    const tus = await import("tus-js-client");
    const sender = new tus.Upload(this.file, this.tusOptions());
    const [before] = await sender.findPreviousUploads();
    if (before) sender.resumeFromPreviousUpload(before);
    return sender;
  }

  private tusOptions(): Tus.UploadOptions {
    return {
      endpoint: new URL(ENDPOINT, location.origin).href,
      chunkSize: CHUNK_BYTES,
      metadata: metadataOf(this.file, this.options),
      retryDelays: RETRY_DELAYS,
      removeFingerprintOnSuccess: true,
      fingerprint: () => Promise.resolve(this.mark),
      onUploadUrlAvailable: () => this.named(),
      onBeforeRequest: () => void (this.askedAt = performance.now()),
      onAfterResponse: (request, response) => this.answered(request, response),
      onProgress: (sent) => this.progressed(sent),
      onShouldRetry: (error) => this.shouldRetry(error),
      onError: (error) => this.refused(error),
      onSuccess: () => this.arrived(),
    };
  }

  /** The server may be known by several names: the one that this page came from is allowed. */
  private named(): void {
    const sender = this.sender;
    if (sender?.url) sender.url = new URL(new URL(sender.url, location.href).pathname, location.origin).href;
    if (this.handle) void remember(this.mark, this.handle);
  }

  private answered(request: Tus.HttpRequest, response: Tus.HttpResponse): void {
    this.askedAt = -Infinity;
    const status = response.getStatus();
    if (request.getMethod() === "HEAD" && !settles(status)) throw new Refusal(status, response.getBody());
    this.mediaId = response.getHeader("Rushes-Media-Id") ?? this.mediaId;
    this.duplicateOf = response.getHeader("Rushes-Duplicate-Of") ?? this.duplicateOf;
    this.inTrash = response.getHeader("Rushes-Duplicate-In-Trash") ?? this.inTrash;
  }

  private progressed(sent: number): void {
    if (!this.isUnderWay) return;
    this.state = "sending";
    this.watch();
    this.sent = sent;
    this.pace.push(sent, performance.now());
    this.speed = this.pace.speed;
  }

  private shouldRetry(error: Tus.DetailedError): boolean {
    const [status] = statusOf(error);
    if (!this.isUnderWay || verdict(status) !== "again") return false;
    this.state = "waiting";
    this.askedAt = -Infinity;
    this.rest();
    if (status === 0) void this.checkFile();
    return true;
  }

  /** A file that was changed or taken away looks to us like a line that breaks. */
  private async checkFile(): Promise<void> {
    try {
      await this.file.slice(0, 1).arrayBuffer();
    } catch {
      if (this.state !== "waiting") return;
      void this.sender?.abort();
      this.fail(t.uploads.fileGone);
    }
  }

  private refused(error: Error | Tus.DetailedError): void {
    const [status, body] = statusOf(error);
    if (verdict(status) === "signed-out") {
      this.state = "queued";
      this.rest();
      this.ends.signedOut();
    } else if (status) this.fail(sentence(status, body));
    else this.fail(t.uploads.fileGone);
  }

  private fail(problem: string): void {
    this.problem = problem;
    this.state = "failed";
    this.rest();
    this.ends.changed();
  }

  private arrived(): void {
    void forget(this.mark);
    this.sent = this.file.size;
    this.state = "done";
    this.rest();
    this.ends.changed();
  }

  private rest(): void {
    clearTimeout(this.watchdog);
    this.pace.clear();
    this.speed = 0;
  }
}

function statusOf(error: Error | Tus.DetailedError): [number, string] {
  const cause = "causingError" in error ? error.causingError : null;
  if (cause instanceof Refusal) return [cause.status, cause.body];
  const response = "originalResponse" in error ? error.originalResponse : null;
  return response ? [response.getStatus(), response.getBody()] : [0, ""];
}
