/** Holds a film that grows where its picture ends: browsers let the sound run on for seconds, and
that part of the picture would never be seen. */
const NEAR_SECONDS = 0.4;
const LOOK_MS = 250;

export class Edge {
  isHeld = $state(false);
  private timer: ReturnType<typeof setInterval> | undefined;

  /** `left`: seconds that can be played from here; `look` is called until there are more. */
  check(video: HTMLVideoElement, left: number, isGrowing: boolean, rate: number, look: () => void): void {
    const isDry = isGrowing && !video.paused && left < NEAR_SECONDS;
    if (isDry === this.isHeld) return;
    this.isHeld = isDry;
    video.playbackRate = isDry ? 0 : rate;
    clearInterval(this.timer);
    if (isDry) this.timer = setInterval(look, LOOK_MS);
  }

  stop(): void {
    clearInterval(this.timer);
    this.isHeld = false;
  }
}
