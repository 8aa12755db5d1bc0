/** Calls `work` a moment after it was scheduled: once however often that was, never twice at a time,
and not sooner than `gapMs` after the last call has ended. */
export class Debouncer {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isRunning = false;
  private isScheduledAgain = false;
  private isStopped = false;
  private endedAt = -Infinity;

  constructor(
    private work: () => Promise<void>,
    private waitMs = 150,
    private gapMs = 0,
  ) {}

  schedule(): void {
    if (this.isStopped || this.timer !== undefined) return;
    if (this.isRunning) {
      this.isScheduledAgain = true;
      return;
    }
    const wait = Math.max(this.waitMs, this.endedAt + this.gapMs - Date.now());
    this.timer = setTimeout(() => void this.run(), wait);
  }

  /** For good. What runs already runs to its end. */
  stop(): void {
    this.isStopped = true;
    clearTimeout(this.timer);
  }

  private async run(): Promise<void> {
    this.timer = undefined;
    this.isRunning = true;
    try {
      await this.work();
    } finally {
      this.isRunning = false;
      this.endedAt = Date.now();
      if (this.isScheduledAgain) {
        this.isScheduledAgain = false;
        this.schedule();
      }
    }
  }
}
