/** The transcript of a media as it is on the server: read once, then kept true by events. */
import { api, ok, Problem, sentenceOf, type Transcript, type TranscriptInfo } from "../lib/api";
import { Debouncer } from "../lib/debounce";
import { live } from "../lib/live.svelte";
import { segmentsOf, reconciled, type Segment } from "./segments";
import { applied, type Change } from "./steps";

export class TranscriptDocument {
  /** Null when there is none. */
  info = $state.raw<TranscriptInfo | null>(null);
  segments = $state.raw<Segment[]>([]);
  /** All of it; of a transcript without times there is nothing else. */
  text = $state.raw("");
  /** False until the server has been asked. */
  known = $state(false);
  problem = $state("");
  /** Called when the text is another one than we have read or made. */
  onForeignChange: () => void = () => {};

  /** What the segments are of. */
  private read = { id: "", revision: -1 };
  private tail: Promise<unknown> = Promise.resolve();
  private debouncer = new Debouncer(() => this.load());

  constructor(readonly mediaId: string) {}

  get path() {
    return { media_id: this.mediaId };
  }

  start(): () => void {
    void this.load();
    const stops = [
      live.on(["media.*", "transcription.completed"], (event) => {
        if (event.media_id === this.mediaId) this.debouncer.schedule();
      }),
      live.onReset(() => this.debouncer.schedule()),
    ];
    return () => {
      stops.forEach((stop) => stop());
      this.debouncer.stop();
    };
  }

  /** One after the other, so that nobody reads in the middle of a change of ours. */
  serial<T>(work: () => Promise<T>): Promise<T> {
    const next = this.tail.then(work, work);
    this.tail = next.catch(() => {});
    return next;
  }

  load(): Promise<void> {
    return this.serial(() => this.readAnew());
  }

  /** Only from within `serial`. */
  async readAnew(): Promise<void> {
    try {
      await this.take(await ok(api.GET("/api/v1/media/{media_id}/transcript/info", { params: { path: this.path } })));
      this.problem = "";
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.forget();
      else this.problem = sentenceOf(error);
    }
    this.known = true;
  }

  /** What a change of ours has led to; the words and their times are read later. */
  changed(info: TranscriptInfo, changes: readonly Change[]): void {
    this.info = info;
    this.segments = applied(this.segments, changes);
    this.debouncer.schedule();
  }

  private async take(info: TranscriptInfo): Promise<void> {
    const isForeign = this.info !== null && (info.id !== this.info.id || info.revision !== this.info.revision);
    if (info.id !== this.read.id || info.revision !== this.read.revision) {
      const got = await ok(api.GET("/api/v1/media/{media_id}/transcript", { params: { path: this.path } }));
      this.segments = reconciled(this.segments, segmentsOf(got as Transcript));
      this.text = (got as Transcript).text;
      this.read = { id: info.id, revision: info.revision };
    }
    this.info = info;
    if (isForeign) this.onForeignChange();
  }

  private forget(): void {
    this.info = null;
    this.segments = [];
    this.text = "";
    this.read = { id: "", revision: -1 };
  }
}
