/** A finger that stays where it is. */
const HELD_MS = 500;
const STILL_PX = 10;

export class LongPress {
  /** The finger has been there long enough, and is perhaps still there. */
  held = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private from = { x: 0, y: 0 };

  constructor(private run: () => void) {}

  down(event: PointerEvent): void {
    this.up();
    this.held = false;
    if (event.pointerType !== "touch") return;
    this.from = { x: event.clientX, y: event.clientY };
    this.timer = setTimeout(() => {
      this.held = true;
      this.run();
    }, HELD_MS);
  }

  moved(event: PointerEvent): void {
    if (Math.hypot(event.clientX - this.from.x, event.clientY - this.from.y) > STILL_PX) this.up();
  }

  up(): void {
    clearTimeout(this.timer);
  }

  /** Asked by the click that follows: it belonged to the press. */
  ended(): boolean {
    const was = this.held;
    this.held = false;
    return was;
  }
}
