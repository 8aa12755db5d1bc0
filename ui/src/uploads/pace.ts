/** How fast bytes go, from when they went. Pure. */
const WINDOW_MS = 6_000;
const LEAST_MS = 400;

export class Pace {
  private seen: { at: number; sent: number }[] = [];

  push(sent: number, at: number): void {
    const last = this.seen.at(-1);
    // Some bytes have to be sent again: what was before that says nothing.
    if (last && sent < last.sent) this.seen = [];
    this.seen.push({ at, sent });
    while (this.seen.length > 2 && at - this.seen[1]!.at > WINDOW_MS) this.seen.shift();
  }

  clear(): void {
    this.seen = [];
  }

  /** Bytes in a second; 0 until it can be told. */
  get speed(): number {
    const first = this.seen[0];
    const last = this.seen.at(-1);
    if (!first || !last || last.at - first.at < LEAST_MS) return 0;
    return ((last.sent - first.sent) * 1000) / (last.at - first.at);
  }
}

/** Seconds; nothing when it cannot be told. */
export function timeLeft(left: number, speed: number): number | undefined {
  return speed > 0 && left > 0 ? left / speed : undefined;
}
