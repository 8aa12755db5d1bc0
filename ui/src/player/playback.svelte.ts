/** What is playing, for everything beside the player that follows or moves it. */
export class Playback {
  time = $state(0);
  duration = $state(0);
  paused = $state(true);
  /** Whether there is anything to move about in yet. */
  ready = $state(false);
  /** Somebody has played it, or moved about in it. */
  touched = $state(false);

  private media: HTMLMediaElement | undefined;
  private wanted: number | undefined;
  private wantsPlay = false;

  /** Follows an element until the answer is called. */
  attach(media: HTMLMediaElement): () => void {
    this.media = media;
    const abort = new AbortController();
    const on = (name: string, call: () => void) => media.addEventListener(name, call, { signal: abort.signal });
    let frame = 0;
    const follow = () => {
      if (this.ready) this.time = media.currentTime;
      // A quarter of a second between two time updates is too long for a word.
      frame = media.paused ? 0 : requestAnimationFrame(follow);
    };
    on("play", () => {
      this.paused = false;
      this.touched = true;
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(follow);
    });
    on("pause", () => (this.paused = true));
    // While another stream is being opened the element says 0.
    const note = () => (this.time = this.ready ? media.currentTime : this.time);
    for (const name of ["timeupdate", "seeking", "seeked"]) on(name, note);
    on("durationchange", () => (this.duration = Number.isFinite(media.duration) ? media.duration : this.duration));
    on("emptied", () => {
      this.ready = false;
      this.paused = media.paused;
    });
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

  /** How long it is, as the page knows it before there is anything to play. */
  expect(seconds: number): void {
    if (!this.ready) this.duration = seconds;
  }

  /** Before there is anything to play it is remembered. */
  seek(seconds: number, { play = false } = {}): void {
    const end = (this.ready && this.duration) || Infinity;
    const to = Math.max(0, Math.min(seconds, end));
    this.time = to;
    this.touched = true;
    if (!this.media || !this.ready) {
      this.wanted = to;
      this.wantsPlay ||= play;
      return;
    }
    this.media.currentTime = to;
    if (play) this.play();
  }

  /** Another stream follows in the same element: where it is to begin, and whether it is to play. */
  reopen(at: number, play: boolean): void {
    this.ready = false;
    this.wanted = at;
    this.wantsPlay = play;
    this.time = at;
  }

  /** Where it will begin. */
  get start(): number {
    return this.wanted ?? this.time;
  }

  play(): void {
    if (!this.media) this.wantsPlay = true;
    // A browser that wants a click first says so by refusing.
    void this.media?.play().catch(() => {});
  }

  pause(): void {
    this.wantsPlay = false;
    this.media?.pause();
  }

  toggle(): void {
    if (this.paused) this.play();
    else this.pause();
  }

  /** What was cut shorter since begins at its beginning. */
  private begin(media: HTMLMediaElement, wanted: number): void {
    const to = wanted < media.duration ? wanted : 0;
    if (Math.abs(media.currentTime - to) > 0.01) media.currentTime = to;
    this.time = to;
  }

  private arrived(): void {
    const media = this.media;
    if (!media) return;
    this.ready = true;
    if (Number.isFinite(media.duration)) this.duration = media.duration;
    if (this.wanted !== undefined) this.begin(media, this.wanted);
    this.wanted = undefined;
    if (this.wantsPlay) this.play();
    this.wantsPlay = false;
  }
}
