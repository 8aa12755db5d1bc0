/** The engine that plays a stream: hls.js where there is media source, otherwise the browser itself. */
import type Hls from "hls.js";
import type { ErrorData } from "hls.js";
import { levelFor, qualitiesOf, type Quality } from "./manifest";
import { t } from "./texts";

export type Trouble = "network" | "gone" | "media" | "unsupported";

const NATIVE_TYPE = "application/vnd.apple.mpegurl";
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 10_000;
/** A second failure to decode so soon after the first is not mended by the same means. */
const MENDED_MS = 5_000;

export class Stream {
  qualities = $state.raw<Quality[]>([]);
  /** Of the picture that is shown; -1 while nobody knows. */
  level = $state(-1);
  /** Chosen by somebody; -1 leaves it to the connection. */
  chosen = $state(-1);
  sounds = $state.raw<string[]>([]);
  sound = $state(-1);
  /** It is still being made and grows. */
  isGrowing = $state(false);
  /** Something could not be fetched, and is tried again. */
  isReconnecting = $state(false);
  trouble = $state<Trouble | null>(null);

  private hls: Hls | undefined;
  private media: HTMLMediaElement | undefined;
  private url = "";
  private opened = 0;
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private mendedAt = -MENDED_MS;
  private swapped = false;

  /** Plays `url` from `start` on; what was played before is left. */
  async open(media: HTMLMediaElement, url: string, start: number, lines: number): Promise<void> {
    this.close();
    const opened = this.opened;
    this.media = media;
    this.url = url;
    const { default: Engine } = await import("hls.js");
    if (opened !== this.opened) return;
    if (Engine.isSupported()) this.begin(Engine, media, start, lines);
    else if (media.canPlayType(NATIVE_TYPE)) this.beginNative(media, url);
    else this.trouble = "unsupported";
  }

  close(): void {
    this.opened += 1;
    clearTimeout(this.timer);
    this.hls?.destroy();
    this.hls = undefined;
    Object.assign(this, { qualities: [], level: -1, chosen: -1, sounds: [], sound: -1, tries: 0 });
    Object.assign(this, { isGrowing: false, isReconnecting: false, trouble: null });
  }

  choose(level: number): void {
    this.chosen = level;
    if (this.hls) this.hls.nextLevel = level;
  }

  chooseSound(number: number): void {
    if (this.hls) this.hls.audioTrack = number;
  }

  /** Seconds a frame is shown. */
  get frame(): number {
    return 1 / (this.hls?.levels[Math.max(0, this.level)]?.frameRate || 25);
  }

  /** Not when the wait is over, but now. */
  retry(): void {
    clearTimeout(this.timer);
    // Of the network it is said until something has come again.
    if (this.trouble !== "network") this.trouble = null;
    const hls = this.hls;
    if (!hls) return void this.media?.load();
    if (hls.levels.length) hls.startLoad();
    else hls.loadSource(this.url);
  }

  private begin(Engine: typeof Hls, media: HTMLMediaElement, start: number, lines: number): void {
    const { Events } = Engine;
    const hls = (this.hls = new Engine({
      // Said even when it is the beginning: of a stream that grows it would begin at the end.
      startPosition: start,
      capLevelToPlayerSize: true,
      backBufferLength: 60,
      maxBufferLength: 30,
      // Captions are drawn by the player itself, from the newest text.
      enableWebVTT: false,
      enableIMSC1: false,
      enableCEA708Captions: false,
      renderTextTracksNatively: false,
    }));
    // What is still being made is not live: nobody wants to be moved to its end.
    Object.defineProperty(hls, "liveSyncPosition", { get: () => null });
    hls.on(Events.MANIFEST_PARSED, () => this.listed(hls, lines));
    hls.once(Events.LEVEL_LOADED, (_, { details }) => {
      if (start >= details.totalduration) hls.startLoad(0);
    });
    hls.on(Events.LEVELS_UPDATED, () => this.list(hls));
    hls.on(Events.LEVEL_SWITCHED, (_, { level }) => (this.level = level));
    hls.on(Events.LEVEL_UPDATED, (_, { details }) => (this.isGrowing = details.live));
    hls.on(Events.AUDIO_TRACKS_UPDATED, () => this.listSounds(hls));
    hls.on(Events.AUDIO_TRACK_SWITCHED, () => (this.sound = hls.audioTrack));
    hls.on(Events.FRAG_LOADED, () => this.arrived());
    hls.on(Events.ERROR, (_, data) => this.failed(Engine, data));
    hls.loadSource(this.url);
    hls.attachMedia(media);
  }

  private beginNative(media: HTMLMediaElement, url: string): void {
    media.src = url;
    media.addEventListener("error", () => (this.trouble = media.error?.code === MediaError.MEDIA_ERR_NETWORK ? "network" : "media"), { once: true });
  }

  private listed(hls: Hls, lines: number): void {
    this.list(hls);
    this.listSounds(hls);
    if (lines) this.choose(levelFor(this.qualities, lines));
  }

  private list(hls: Hls): void {
    const levels = hls.levels.map((each) => ({
      width: each.width,
      height: each.height,
      bitrate: each.bitrate,
      url: each.url[0] ?? "",
      codec: each.videoCodec,
    }));
    this.qualities = qualitiesOf(levels, t.player.original);
  }

  private listSounds(hls: Hls): void {
    this.sounds = hls.audioTracks.map((each, at) => each.name || each.lang || t.player.soundNumber(at + 1));
    this.sound = hls.audioTrack;
  }

  private arrived(): void {
    this.tries = 0;
    this.isReconnecting = false;
    if (this.trouble === "network") this.trouble = null;
  }

  private failed(Engine: typeof Hls, data: ErrorData): void {
    const { ErrorTypes } = Engine;
    if (data.type === ErrorTypes.NETWORK_ERROR && !data.fatal) this.isReconnecting = true;
    if (!data.fatal) return;
    if (data.type === ErrorTypes.NETWORK_ERROR) this.lost(data.response?.code ?? 0);
    else if (data.type === ErrorTypes.MEDIA_ERROR) this.mend();
    else this.trouble = "media";
  }

  private lost(status: number): void {
    if (status >= 400 && status < 500 && status !== 429) {
      this.trouble = "gone";
      return;
    }
    this.isReconnecting = true;
    this.trouble = "network";
    const wait = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.tries);
    this.tries += 1;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.retry(), wait);
  }

  private mend(): void {
    const hls = this.hls;
    const now = performance.now();
    if (now - this.mendedAt >= MENDED_MS) this.swapped = false;
    else if (this.swapped) {
      this.trouble = "media";
      return;
    } else {
      this.swapped = true;
      hls?.swapAudioCodec();
    }
    this.mendedAt = now;
    hls?.recoverMediaError();
  }
}
