/** How somebody reads a transcript: where they are, what they look for, what they want to see. */
import { storeOf } from "../player/memory";
import type { Playback } from "../player/playback.svelte";
import { findAll, firstFrom, marksOf } from "./find";
import { segmentAt, wordAt, type Segment, type Mark } from "./segments";

const UNSURE_SHOWN = "rushes.transcript.unsure";
const device = storeOf("localStorage");
const NO_MARKS: Mark[] = [];

export class Find {
  isOpen = $state(false);
  query = $state("");
  matchCase = $state(false);
  wholeWords = $state(false);
  isReplacing = $state(false);
  replacement = $state("");
  /** The number of the hit that is looked at. */
  at = $state(0);

  hits = $derived.by(() => (this.isOpen ? findAll(this.segments(), this.query, this) : []));
  private marks = $derived.by(() => marksOf(this.segments(), this.hits));

  constructor(private segments: () => Segment[]) {}

  marksOf(id: string): Mark[] {
    return this.marks.get(id) ?? NO_MARKS;
  }

  /** The hit that is looked at, if there are any. */
  get current(): number {
    return this.hits.length ? Math.min(this.at, this.hits.length - 1) : -1;
  }

  step(by: number): void {
    const count = this.hits.length;
    if (count) this.at = (this.current + by + count) % count;
  }

  /** Begin with the first hit behind a segment. */
  startFrom(segment: number): void {
    this.at = firstFrom(this.hits, segment);
  }
}

export class View {
  /** Whether a click on the text is for writing. */
  isEditing = $state(false);
  showUnsure = $state(device.getItem(UNSURE_SHOWN) !== "no");
  /** Whether the text moves with what is heard. */
  isFollowing = $state(true);
  /** The segment that the keyboard is at. */
  focused = $state(0);
  find: Find;

  private time = $derived.by(() => (this.playback.touched || this.playback.time > 0 ? this.playback.time : -1));
  segment = $derived.by(() => segmentAt(this.segments(), this.time));
  word = $derived.by(() => wordAt(this.segments()[this.segment], this.time));

  constructor(
    readonly playback: Playback,
    readonly segments: () => Segment[],
  ) {
    this.find = new Find(segments);
  }

  toggleUnsure(): void {
    this.showUnsure = !this.showUnsure;
    try {
      device.setItem(UNSURE_SHOWN, this.showUnsure ? "yes" : "no");
    } catch {
      // It counts until the page is closed.
    }
  }
}
