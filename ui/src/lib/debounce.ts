/** Does something when asked, but never more often than every so often, and never twice at once. */
export class Paced {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isRunning = false;
  private isAskedAgain = false;
  private isStopped = false;
  private endedAt = -Infinity;

  constructor(
    private work: () => Promise<void>,
    private gapMs: number,
    private firstMs = 120,
  ) {}

  ask(): void {
    if (this.isStopped || this.timer !== undefined) return;
    if (this.isRunning) {
      this.isAskedAgain = true;
      return;
    }
    const wait = Math.max(this.firstMs, this.endedAt + this.gapMs - Date.now());
    this.timer = setTimeout(() => void this.run(), wait);
  }

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
      if (this.isAskedAgain) {
        this.isAskedAgain = false;
        this.ask();
      }
    }
  }
}

/** Calls while the page is seen: now and then, and when somebody comes back to it. Answers how to stop. */
export function whileSeen(call: () => void, everyMs: number): () => void {
  const look = () => {
    if (!document.hidden) call();
  };
  const timer = setInterval(look, everyMs);
  document.addEventListener("visibilitychange", look);
  window.addEventListener("focus", look);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", look);
    window.removeEventListener("focus", look);
  };
}
