/** What is playing, for everything beside the player that follows or moves it. */
export class Playback {
  time = $state(0);
  duration = $state(0);
  paused = $state(true);
  /** Whether there is anything to move about in yet. */
  ready = $state(false);

  private media: HTMLMediaElement | undefined;
  private wanted: number | undefined;

  /** Follows an element until the answer is called. */
  attach(media: HTMLMediaElement): () => void {
    this.media = media;
    const abort = new AbortController();
    const on = (name: string, call: () => void) => media.addEventListener(name, call, { signal: abort.signal });
    let frame = 0;
    const follow = () => {
      this.time = media.currentTime;
      // A quarter of a second between two time updates is too long for a word.
      frame = media.paused ? 0 : requestAnimationFrame(follow);
    };
    on("play", () => {
      this.paused = false;
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(follow);
    });
    on("pause", () => (this.paused = true));
    for (const name of ["timeupdate", "seeking", "seeked"]) on(name, () => (this.time = media.currentTime));
    on("durationchange", () => (this.duration = Number.isFinite(media.duration) ? media.duration : this.duration));
    on("loadedmetadata", () => this.arrived());
    if (media.readyState >= HTMLMediaElement.HAVE_METADATA) this.arrived();
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
      this.media = undefined;
      this.ready = false;
      this.paused = true;
    };
  }

  /** Before there is anything to play it is remembered. */
  seek(seconds: number, { play = false } = {}): void {
    const end = this.duration || Infinity;
    const to = Math.max(0, Math.min(seconds, end));
    this.time = to;
    if (!this.media || !this.ready) {
      this.wanted = to;
      return;
    }
    this.media.currentTime = to;
    if (play) this.play();
  }

  play(): void {
    // A browser that wants a click first says so by refusing.
    void this.media?.play().catch(() => {});
  }

  pause(): void {
    this.media?.pause();
  }

  toggle(): void {
    if (this.paused) this.play();
    else this.pause();
  }

  private arrived(): void {
    const media = this.media;
    if (!media) return;
    this.ready = true;
    if (Number.isFinite(media.duration)) this.duration = media.duration;
    if (this.wanted !== undefined) media.currentTime = this.wanted;
    this.wanted = undefined;
  }
}
