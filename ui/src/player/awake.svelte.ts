/** Whether somebody is at the player: its bar goes away when nobody is. */
const STILL_MS = 2_600;

export class Awake {
  is = $state(true);
  private timer: ReturnType<typeof setTimeout> | undefined;

  wake(): void {
    this.is = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.is = false), STILL_MS);
  }

  sleep(): void {
    clearTimeout(this.timer);
    this.is = false;
  }
}

const DOUBLE_MS = 300;

export type Tap = "back" | "forward" | "play" | "bar";

/** What a finger on the picture means: twice at a side moves, once in the middle plays. */
export class Taps {
  private before: { at: number; side: string } = { at: -DOUBLE_MS, side: "" };

  tell(share: number, at: number, isPaused: boolean): Tap {
    const side = share < 1 / 3 ? "back" : share > 2 / 3 ? "forward" : "middle";
    const isDouble = at - this.before.at < DOUBLE_MS && this.before.side === side;
    this.before = { at, side };
    if (side !== "middle" && isDouble) return side as Tap;
    return side === "middle" && isPaused ? "play" : "bar";
  }
}
