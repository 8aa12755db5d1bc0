/** Text that somebody is writing. It is kept in the browser until the server has it. */
import { oneLine } from "./find";
import type { Segment } from "./segments";
import type { Edit, Said } from "./steps";

export class Draft {
  text = $state("");
  speaker = $state<string | null>(null);
  state = $state<"open" | "saving" | "failed" | "conflict">("open");
  /** Why it is not saved. */
  problem = $state("");
  /** From an earlier visit: whoever wrote it decides what becomes of it. */
  isOld = $state(false);
  /** What somebody else has made of it meanwhile; null when it is gone. */
  theirs = $state.raw<Said | null>(null);

  constructor(
    readonly id: string,
    /** As it was when the writing began. */
    public base: Said,
  ) {
    this.text = base.text;
    this.speaker = base.speaker;
  }

  get isChanged(): boolean {
    return oneLine(this.text) !== this.base.text || this.speaker !== this.base.speaker;
  }

  /** Whether people should know that the server has not got it: also while it is sent once more. */
  get isUnsaved(): boolean {
    return this.state === "failed" || this.state === "conflict" || (this.state === "saving" && this.problem !== "");
  }

  get edit(): Edit {
    const text = oneLine(this.text);
    return {
      id: this.id,
      ...(text === this.base.text ? {} : { text }),
      ...(this.speaker === this.base.speaker ? {} : { speaker: this.speaker ?? "" }),
    };
  }

  /** Whether the segment is what was written: the server has it, though nobody heard so. */
  isIn(segment: Segment | undefined): boolean {
    const text = oneLine(this.text);
    return segment ? segment.text === text && segment.speaker === this.speaker : !text;
  }

  /** Whether the segment is still what the writing began with. */
  fits(segment: Segment | undefined): boolean {
    return segment?.text === this.base.text && segment.speaker === this.base.speaker;
  }
}

interface Kept {
  id: string;
  text: string;
  speaker: string | null;
  base: Said;
}

const nameOf = (mediaId: string) => `rushes.draft.${mediaId}`;

/** So that it is still there after the page was left or the browser was closed. */
export function keepDrafts(mediaId: string, drafts: Iterable<Draft>): void {
  const kept: Kept[] = [...drafts]
    .filter((each) => each.isChanged)
    .map(({ id, text, speaker, base }) => ({ id, text, speaker, base: { ...base } }));
  try {
    if (kept.length) localStorage.setItem(nameOf(mediaId), JSON.stringify(kept));
    else localStorage.removeItem(nameOf(mediaId));
  } catch {
    // Then it is there for as long as the page is.
  }
}

export function keptDrafts(mediaId: string): Draft[] {
  try {
    const kept = JSON.parse(localStorage.getItem(nameOf(mediaId)) ?? "[]") as Kept[];
    return kept.map((each) => {
      const draft = new Draft(each.id, each.base);
      draft.text = String(each.text);
      draft.speaker = each.speaker;
      return draft;
    });
  } catch {
    return [];
  }
}
