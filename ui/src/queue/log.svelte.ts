/** A job's log; while the job runs, line by line as it is written. */
import { kept, LineReader } from "./lines";

const RETRY_MS = 1_500;

export class JobLog {
  lines = $state.raw<string[]>([]);
  status = $state<"reading" | "live" | "ended" | "lost">("reading");

  constructor(
    readonly id: string,
    readonly follow: boolean,
    /** What was read before, shown until there is more to show. */
    before: string[] = [],
  ) {
    this.lines = before;
  }

  start(): () => void {
    const abort = new AbortController();
    void this.run(abort.signal);
    return () => abort.abort();
  }

  private async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (await this.read(signal)) {
          this.status = "ended";
          // What ends while the job runs was cut off.
          if (!this.follow) return;
        }
      } catch {
        if (signal.aborted) return;
        this.status = "lost";
      }
      await pause(RETRY_MS, signal);
    }
  }

  /** Whether there is no more to come of this answer. */
  private async read(signal: AbortSignal): Promise<boolean> {
    const address = `/api/v1/jobs/${encodeURIComponent(this.id)}/logs?follow=${this.follow}`;
    const answer = await fetch(address, { signal, cache: "no-store" });
    if (!answer.ok || !answer.body) throw new Error(String(answer.status));
    if (this.follow) this.status = "live";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const lines = new LineReader();
    let isFirst = true;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const more = lines.push(value);
      this.lines = kept(isFirst ? [] : this.lines, more);
      isFirst = false;
    }
    if (isFirst) this.lines = [];
    return true;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
