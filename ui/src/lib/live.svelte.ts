/** What happens on the server, as it happens. One stream for the whole page; it heals by itself.

A page that nobody looks at gives its connection back after a while (browsers allow six to one
server) and catches up, from the last event it has seen, when somebody does. */
import { signedOut } from "./api";
import { FrameReader } from "./sse";

export interface LiveEvent {
  type: string;
  id?: string;
  status?: string;
  progress?: number;
  stage?: string;
  media_id?: string;
  job_id?: string;
  attempt?: number;
  error_code?: string;
  at?: string;
  [more: string]: unknown;
}

/** How far a job is: the same again in a moment, so that it may be missed. */
export function isProgress(event: LiveEvent): boolean {
  return event.type.endsWith(".progress");
}

type Listener = (event: LiveEvent) => void;

const QUIET_MS = 40_000;
const HIDDEN_MS = 60_000;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;

class Live {
  /** `lost` is worth telling: what is on the page may be old. */
  status = $state<"off" | "connecting" | "live" | "lost">("off");

  private listeners = new Set<[string[], Listener]>();
  private resets = new Set<() => void>();
  private opens = new Set<() => void>();
  private position: string | undefined;
  private abort: AbortController | undefined;
  private wanted = false;
  private retryMs = FIRST_RETRY_MS;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private hiddenTimer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    if (typeof document === "undefined") return;
    document.addEventListener("visibilitychange", () => this.seen(!document.hidden));
    window.addEventListener("online", () => this.again());
  }

  /** Hears events whose type is one of `types`: exact, `transcode.*`, or `*` for all. Returns how to
  stop it. */
  on(types: string[], listener: Listener): () => void {
    const entry: [string[], Listener] = [types, listener];
    this.listeners.add(entry);
    return () => void this.listeners.delete(entry);
  }

  /** Called when events were missed, or the connection is back after it was lost: read anew. */
  onReset(listener: () => void): () => void {
    this.resets.add(listener);
    return () => void this.resets.delete(listener);
  }

  /** Called when the connection is there, without a reason to read anew what was read well. */
  onOpen(listener: () => void): () => void {
    this.opens.add(listener);
    return () => void this.opens.delete(listener);
  }

  /** `position`: where the events stood before the page read anything, so that it hears of what happens
  while it reads. */
  start(position?: string): void {
    if (this.wanted) return;
    this.wanted = true;
    this.position = position;
    this.status = "connecting";
    void this.listen();
  }

  stop(): void {
    this.wanted = false;
    this.position = undefined;
    this.close();
    this.status = "off";
  }

  /** Try at once instead of when the wait is over. */
  again(): void {
    if (!this.wanted || this.status === "live") return;
    this.retryMs = FIRST_RETRY_MS;
    this.close();
    void this.listen();
  }

  private seen(visible: boolean): void {
    clearTimeout(this.hiddenTimer);
    if (visible) return this.again();
    this.hiddenTimer = setTimeout(() => {
      if (!this.wanted) return;
      this.close();
      this.status = "connecting";
    }, HIDDEN_MS);
  }

  private close(): void {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = undefined;
  }

  private async listen(): Promise<void> {
    const abort = (this.abort = new AbortController());
    try {
      await this.read(abort);
    } catch {
      // Whatever it was, the answer is to come back.
    }
    if (this.abort !== abort) return;
    this.close();
    if (!this.wanted) return;
    this.status = "lost";
    this.timer = setTimeout(() => void this.listen(), this.retryMs * (0.75 + Math.random() / 2));
    this.retryMs = Math.min(this.retryMs * 2, LAST_RETRY_MS);
  }

  private async read(abort: AbortController): Promise<void> {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (this.position !== undefined) headers["Last-Event-ID"] = this.position;
    let quiet = setTimeout(() => abort.abort(), QUIET_MS);
    try {
      const answer = await fetch("/api/v1/events", { headers, signal: abort.signal, cache: "no-store" });
      if (answer.status === 401) {
        this.stop();
        return signedOut();
      }
      if (!answer.ok || !answer.body) return;
      const frames = new FrameReader();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(quiet);
        quiet = setTimeout(() => abort.abort(), QUIET_MS);
        if (this.status !== "live") this.opened();
        for (const frame of frames.push(value)) {
          if (frame.id !== undefined) this.position = frame.id;
          if (frame.data !== undefined) this.tell(JSON.parse(frame.data) as LiveEvent);
        }
      }
    } finally {
      clearTimeout(quiet);
    }
  }

  private opened(): void {
    const wasLost = this.status === "lost";
    this.retryMs = FIRST_RETRY_MS;
    this.status = "live";
    // Events are caught up with, but what was asked for meanwhile got no answer.
    if (wasLost) this.reset();
    else this.opens.forEach((call) => call());
  }

  private reset(): void {
    this.resets.forEach((call) => call());
  }

  private tell(event: LiveEvent): void {
    if (event.type === "reset") return this.reset();
    const family = `${event.type.split(".")[0]}.*`;
    for (const [types, listener] of [...this.listeners]) {
      if (types.includes("*") || types.includes(event.type) || types.includes(family)) listener(event);
    }
  }
}

export const live = new Live();
