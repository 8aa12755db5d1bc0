/** One player: what it plays, how, and everything that can be done with it. */
import { clock, percent } from "../lib/format";
import { formatNumber } from "../lib/language";
import { Edge } from "./edge.svelte";
import { Extras, type Has } from "./extras.svelte";
import { sameStreams } from "./manifest";
import { readMaster, type Master } from "./master";
import { keepPosition, keepPreferences, positionOf, readPreferences, storeOf, type Preferences } from "./memory";
import type { Playback } from "./playback.svelte";
import { canFloat, drawNatively, toggleFloating, toggleFullscreen } from "./screen";
import { moved, type Selection } from "./selection";
import { nextRate, type Command } from "./shortcuts";
import { Stream, type Trouble } from "./stream.svelte";
import { t } from "./texts";

export interface Source {
  /** Of the master playlist; the same for every version. */
  src: string;
  /** What the position is remembered by. */
  id: string;
  has: Has;
}

const device = storeOf("localStorage");
const SAID_MS = 900;
const REFRESH_MS = 150;

export class PlayerState {
  preferences = $state<Preferences>(readPreferences(device));
  stream = new Stream();
  extras = new Extras();
  edge = new Edge();
  /** Something newer than what is played can be had. */
  offer = $state<"version" | "qualities" | null>(null);
  /** The part that is being cut out. */
  selection = $state<Selection | null>(null);
  /** Where it went on from the last time. */
  resumedAt = $state<number | null>(null);
  /** A word about what a key has done. */
  said = $state("");
  isStalled = $state(false);
  isFullscreen = $state(false);
  hasPip = $state(false);
  bufferedUntil = $state(0);
  helpIsOpen = $state(false);

  /** Told where somebody is, every few seconds and in the end. */
  onposition: ((seconds: number) => void) | undefined;

  private video: HTMLVideoElement | undefined;
  private box: HTMLElement | undefined;
  private source: Source | undefined;
  private master = $state.raw<Master>();
  private unreachable = $state<Trouble | null>(null);
  private isClosed = false;
  /** Counts what was asked for; only the last of it is played. */
  private loading = 0;
  private refreshTimer: ReturnType<typeof setTimeout> | undefined;
  private saidTimer: ReturnType<typeof setTimeout> | undefined;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly playback: Playback) {}

  get trouble(): Trouble | null {
    return this.unreachable ?? this.stream.trouble;
  }

  /** Follows the elements until the answer is called. */
  attach(video: HTMLVideoElement, box: HTMLElement): () => void {
    this.video = video;
    this.box = box;
    this.isClosed = false;
    this.hasPip = canFloat(video);
    this.applyPreferences();
    const detach = this.playback.attach(video);
    const abort = new AbortController();
    const on = (target: EventTarget, names: string, call: () => void) =>
      names.split(" ").forEach((name) => target.addEventListener(name, call, { signal: abort.signal }));
    on(video, "waiting seeking", () => (this.isStalled = true));
    on(video, "playing canplay seeked emptied pause", () => (this.isStalled = video.readyState < HTMLMediaElement.HAVE_FUTURE_DATA && !video.paused));
    on(video, "progress timeupdate seeking play pause", () => this.noteBuffered());
    on(video, "loadedmetadata", () => this.begun());
    on(video, "volumechange", () => this.keep({ volume: video.volume, muted: video.muted }));
    on(document, "fullscreenchange", () => (this.isFullscreen = document.fullscreenElement === box));
    on(video, "webkitbeginfullscreen", () => drawNatively(video, this.preferences.captions ? this.extras.cues : []));
    on(video, "webkitendfullscreen", () => drawNatively(video, []));
    on(window, "online", () => this.trouble === "network" && this.retry());
    on(video, "pause", () => this.rememberPosition());
    on(window, "pagehide", () => this.rememberPosition());
    const timer = setInterval(() => !video.paused && this.rememberPosition(), 5_000);
    return () => {
      this.rememberPosition();
      this.isClosed = true;
      clearInterval(timer);
      clearTimeout(this.retryTimer);
      clearTimeout(this.refreshTimer);
      abort.abort();
      this.stream.close();
      this.edge.stop();
      detach();
      Object.assign(this, { source: undefined, master: undefined, unreachable: null, offer: null, selection: null });
    };
  }

  /** Begins at a moment that was asked for, or where it was left the last time. */
  open(source: Source, moment: number | undefined): void {
    const isOther = source.id !== this.source?.id;
    this.source = source;
    if (!isOther) return this.refresh();
    const { playback } = this;
    const isAsked = moment !== undefined || playback.touched;
    const left = isAsked ? undefined : positionOf(device, source.id);
    this.resumedAt = left ?? null;
    playback.reopen(moment ?? left ?? playback.start, false);
    void this.load();
  }

  /** Plays the newest there is, from where we are. */
  async load(): Promise<void> {
    const { playback, video, source } = this;
    if (!video || !source) return;
    const loading = ++this.loading;
    const wasPlaying = !playback.paused;
    const master = await this.find(source.src);
    if (!master || this.isClosed || loading !== this.loading) return;
    this.offer = null;
    this.master = master;
    playback.reopen(playback.start, wasPlaying);
    void this.extras.follow(master.url, master.text, source.has);
    await this.stream.open(video, master.url, playback.start, this.preferences.quality);
  }

  /** Looks for what is new, without a change to what is played; once, however often it is asked. */
  refresh(): void {
    if (!this.master && !this.trouble) return;
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => void this.look(), REFRESH_MS);
  }

  private async look(): Promise<void> {
    const { master, source } = this;
    if (!source || this.isClosed) return;
    if (!master || this.trouble === "gone") return this.load();
    const found = await this.read(source.src);
    if (!found || this.isClosed || this.master !== master) return;
    const isOther = found.url !== master.url;
    if (isOther || !sameStreams(found.text, master.text)) {
      if (!this.playback.touched) return this.load();
      this.offer = isOther ? "version" : "qualities";
    }
    if (!isOther) await this.extras.follow(found.url, found.text, source.has);
  }

  /** What was played is gone: a newer version takes its place, if there is one. */
  async replaceGone(): Promise<void> {
    const { master, source } = this;
    if (!master || !source) return;
    const found = await this.read(source.src);
    if (found && found.url !== master.url && !this.isClosed && this.master === master) await this.load();
  }

  retry(): void {
    clearTimeout(this.retryTimer);
    if (this.unreachable || this.trouble === "gone") void this.load();
    else this.stream.retry();
  }

  startOver(): void {
    this.resumedAt = null;
    this.playback.seek(0, { play: true });
  }

  run(command: Command): void {
    const { playback } = this;
    switch (command.name) {
      case "toggle":
        return playback.toggle();
      case "skip":
        playback.seek(playback.time + command.by);
        return this.say(t.player.skipped(command.by));
      case "jump":
        playback.seek(command.share * playback.duration);
        return this.say(clock(playback.time));
      case "frame":
        playback.pause();
        return playback.seek(playback.time + command.by * this.stream.frame);
      case "rate":
        return this.setRate(nextRate(this.preferences.rate, command.by));
      case "volume":
        return this.setVolume(this.preferences.volume + command.by);
      case "mute":
        return this.toggleMute();
      case "captions":
        return this.toggleCaptions();
      case "pip":
        return this.togglePip();
      case "fullscreen":
        return this.toggleFullscreen();
      case "help":
        this.helpIsOpen = true;
        return;
      case "in":
        return this.select({ start: playback.time });
      case "out":
        return this.select({ end: playback.time });
    }
  }

  setRate(rate: number): void {
    this.keep({ rate });
    if (this.video && !this.edge.isHeld) this.video.playbackRate = rate;
    this.say(`${formatNumber(rate)}×`);
  }

  setVolume(volume: number): void {
    if (!this.video) return;
    this.video.volume = Math.min(1, Math.max(0, Math.round(volume * 100) / 100));
    this.video.muted = this.video.volume === 0;
    this.say(t.player.volumeAt(percent(this.video.volume)));
  }

  toggleMute(): void {
    if (!this.video) return;
    this.video.muted = !this.video.muted;
    if (!this.video.muted && this.video.volume === 0) this.video.volume = 0.5;
    this.say(this.video.muted ? t.player.muted : t.player.volumeAt(percent(this.video.volume)));
  }

  toggleCaptions(): void {
    if (!this.extras.cues.length) return this.say(t.player.noCaptions);
    this.keep({ captions: !this.preferences.captions });
    this.say(this.preferences.captions ? t.player.captionsOn : t.player.captionsOff);
  }

  chooseQuality(level: number): void {
    this.keep({ quality: this.stream.qualities.find((each) => each.level === level)?.lines ?? 0 });
    this.stream.choose(level);
  }

  toggleFullscreen(): void {
    if (this.box && this.video) void toggleFullscreen(this.box, this.video);
  }

  togglePip(): void {
    if (this.hasPip && this.video) void toggleFloating(this.video);
  }

  /** Moves the ends of what is being cut out. */
  select(ends: Partial<Selection>): void {
    if (this.selection) this.selection = moved(this.selection, ends, this.playback.duration);
  }

  keep(preferences: Partial<Preferences>): void {
    Object.assign(this.preferences, preferences);
    keepPreferences(device, this.preferences);
  }

  say(text: string): void {
    this.said = text;
    clearTimeout(this.saidTimer);
    this.saidTimer = setTimeout(() => (this.said = ""), SAID_MS);
  }

  private begun(): void {
    this.applyPreferences();
    // It may have been cut shorter since.
    if (this.resumedAt !== null && this.playback.time < this.resumedAt - 1) this.resumedAt = null;
  }

  private applyPreferences(): void {
    if (!this.video) return;
    this.video.volume = this.preferences.volume;
    this.video.muted = this.preferences.muted;
    this.video.playbackRate = this.preferences.rate;
  }

  private noteBuffered(): void {
    const { buffered, currentTime } = this.video!;
    let until = currentTime;
    for (let at = 0; at < buffered.length; at += 1) {
      if (buffered.start(at) <= currentTime + 0.5 && buffered.end(at) > until) until = buffered.end(at);
    }
    this.bufferedUntil = until;
    this.edge.check(this.video!, until - currentTime, this.stream.isGrowing, this.preferences.rate, () => this.noteBuffered());
  }

  private rememberPosition(): void {
    const { source, playback } = this;
    if (!source || !playback.ready || !playback.touched) return;
    // The end of something that grows is not its end.
    const whole = this.stream.isGrowing ? Infinity : playback.duration;
    keepPosition(device, source.id, playback.time, whole);
    this.onposition?.(playback.time);
  }

  /** Tries until it is there. */
  private async find(src: string): Promise<Master | undefined> {
    clearTimeout(this.retryTimer);
    const found = await this.read(src);
    if (found) this.unreachable = null;
    else if (!this.isClosed && this.unreachable === "network") this.retryTimer = setTimeout(() => void this.load(), 3_000);
    return found;
  }

  private async read(src: string): Promise<Master | undefined> {
    const found = await readMaster(src);
    if (typeof found !== "string") return found;
    if (!this.master) this.unreachable = found;
    return undefined;
  }
}
