/** Changing a transcript: what is being written, saving it, undoing it, and who was quicker. */
import { SvelteMap } from "svelte/reactivity";
import { api, ok, Problem, sentenceOf, type TranscriptInfo } from "../lib/api";
import { toasts } from "../lib/toasts.svelte";
import type { TranscriptDocument } from "./document.svelte";
import { Draft, keepDrafts, keptDrafts } from "./drafts.svelte";
import * as steps from "./steps";
import type { Change, Edit, Step } from "./steps";
import { t } from "./texts";

/** The server takes so many segments at once. */
const EDITS_AT_ONCE = 1000;
const ATTEMPTS = 4;

/** Somebody else has changed the same segments. */
class Conflict extends Error {}

export class Editor {
  drafts = new SvelteMap<string, Draft>();
  /** The segment whose text is being written right now. */
  openId = $state<string | null>(null);
  busy = $state(false);
  private past = $state.raw<steps.Steps>(steps.NO_STEPS);

  constructor(readonly doc: TranscriptDocument) {
    doc.onForeignChange = () => {
      this.past = steps.blurred(this.past);
    };
  }

  get canUndo(): boolean {
    return this.past.done.length > 0 && !this.busy;
  }

  get canRedo(): boolean {
    return this.past.undone.length > 0 && !this.busy;
  }

  /** What was written of segments that are not there any more. */
  get orphans(): Draft[] {
    if (!this.drafts.size) return [];
    const known = new Set(this.doc.segments.map((each) => each.id));
    return [...this.drafts.values()].filter((each) => !known.has(each.id) && each.isChanged && each.state !== "saving");
  }

  get hasUnsaved(): boolean {
    return [...this.drafts.values()].some((each) => each.isChanged);
  }

  // Writing

  open(id: string): void {
    const before = this.openId === null ? undefined : this.drafts.get(this.openId);
    if (before && before.id !== id) this.close(before);
    const segment = this.segment(id);
    if (!segment || segment.bare) return;
    if (!this.drafts.has(id)) this.drafts.set(id, new Draft(id, { text: segment.text, speaker: segment.speaker }));
    const draft = this.drafts.get(id)!;
    if (draft.state === "saving") return;
    this.openId = id;
  }

  /** Saves what was changed, and forgets what was not. */
  close(draft: Draft): void {
    if (draft.state === "conflict") return this.leave(draft);
    if (draft.isChanged) void this.save(draft);
    else this.drop(draft);
  }

  drop(draft: Draft): void {
    this.drafts.delete(draft.id);
    this.leave(draft);
    this.keep();
  }

  /** Called whenever something was typed. */
  keep(): void {
    keepDrafts(this.doc.mediaId, this.drafts.values());
  }

  /** What was being written when the page was left. Returns how much that is. */
  bringBack(): number {
    const found = keptDrafts(this.doc.mediaId).filter((each) => !this.drafts.has(each.id));
    const kept = found.filter((each) => !each.isIn(this.segment(each.id)));
    for (const draft of kept) {
      const segment = this.segment(draft.id);
      if (draft.fits(segment)) draft.state = "failed";
      else this.markConflict(draft);
      draft.problem = t.transcript.keptDraft;
      draft.isOld = true;
      this.drafts.set(draft.id, draft);
    }
    if (kept.length < found.length) this.keep();
    return kept.length;
  }

  async save(draft: Draft): Promise<boolean> {
    this.leave(draft);
    if (!draft.isChanged) {
      this.drop(draft);
      return true;
    }
    draft.state = "saving";
    draft.isOld = false;
    const isGone = !draft.edit.text && draft.edit.text !== undefined;
    try {
      await this.write(() => [draft.edit], () => draft.fits(this.segment(draft.id)));
      this.drop(draft);
      if (isGone) this.tellOfUndo(t.transcript.removed);
      return true;
    } catch (error) {
      if (error instanceof Conflict) this.markConflict(draft);
      else {
        draft.state = "failed";
        draft.problem = sentenceOf(error);
      }
      this.keep();
      return false;
    }
  }

  /** Mine, on top of what somebody else has written. */
  saveMine(draft: Draft): Promise<boolean> {
    if (draft.theirs) draft.base = draft.theirs;
    return this.save(draft);
  }

  /** What could not be saved before: the connection is back. */
  saveAgain(): void {
    for (const draft of this.drafts.values()) {
      if (draft.state === "failed" && !draft.isOld) void this.save(draft);
    }
  }

  // Many at once

  /** One step, however many segments it changes. Returns whether it worked. */
  async change(edits: Edit[], said: string): Promise<boolean> {
    const before = new Map(this.doc.segments.map((each) => [each.id, each]));
    const isUntouched = () =>
      edits.every((each) => {
        const segment = this.segment(each.id);
        const old = before.get(each.id);
        return segment !== undefined && segment.text === old?.text && segment.speaker === old.speaker;
      });
    try {
      await this.write(() => edits, isUntouched);
      this.tellOfUndo(said);
      return true;
    } catch (error) {
      toasts.bad(error instanceof Conflict ? new Error(t.transcript.changedMeanwhile) : error);
      return false;
    }
  }

  // Undoing

  undo(): Promise<void> {
    return this.walk(this.past.done.at(-1), "undo");
  }

  redo(): Promise<void> {
    return this.walk(this.past.undone.at(-1), "redo");
  }

  private async walk(step: Step | undefined, way: "undo" | "redo"): Promise<void> {
    if (!step || this.busy) return;
    this.busy = true;
    try {
      await this.doc.serial(() => this.goStep(way));
      this.past = way === "undo" ? steps.wentBack(this.past) : steps.wentOn(this.past);
    } catch (error) {
      toasts.bad(error instanceof Conflict ? new Error(t.transcript.cannotUndo) : error);
    } finally {
      this.busy = false;
    }
  }

  private async goStep(way: "undo" | "redo"): Promise<void> {
    // Read here: somebody else's change may have come since it was asked for.
    const step = (way === "undo" ? this.past.done : this.past.undone).at(-1)!;
    const changes = way === "undo" ? steps.reversed(step.changes) : step.changes;
    if (step.exact && (await this.revert(way === "undo" ? step.from : step.to, changes))) return;
    const edits = steps.editsFor(changes, this.doc.segments);
    if (!edits) throw new Conflict();
    await this.send(edits);
  }

  private async revert(to: number, changes: Change[]): Promise<boolean> {
    const revision = this.doc.info?.revision ?? 0;
    try {
      const request = api.POST("/api/v1/media/{media_id}/transcript/revert", {
        params: { path: this.doc.path },
        body: { revision, to },
      });
      this.doc.changed(await ok(request), changes);
      await this.doc.readAnew();
      return true;
    } catch (error) {
      if (!isOvertaken(error)) throw error;
      await this.doc.readAnew();
      return false;
    }
  }

  // Sending

  private write(edits: () => Edit[], isUntouched: () => boolean): Promise<void> {
    return this.doc.serial(async () => {
      for (let attempt = 1; ; attempt += 1) {
        // The base of a draft is what its writer has seen, which may be older than what we have read.
        if (!isUntouched()) throw new Conflict();
        try {
          await this.sendStep(edits());
          return;
        } catch (error) {
          if (!isOvertaken(error) || attempt >= ATTEMPTS) throw error;
          await this.doc.readAnew();
        }
      }
    });
  }

  private async sendStep(edits: Edit[]): Promise<void> {
    const from = this.doc.info?.revision ?? 0;
    const changes = steps.changesOf(this.doc.segments, edits);
    const { revision: to } = await this.send(edits);
    if (to !== from) this.past = steps.added(this.past, { changes, from, to, exact: true });
  }

  private async send(edits: Edit[]): Promise<TranscriptInfo> {
    let info = this.doc.info;
    for (let first = 0; first < edits.length; first += EDITS_AT_ONCE) {
      const segments = edits.slice(first, first + EDITS_AT_ONCE);
      const changes = steps.changesOf(this.doc.segments, segments);
      const body = { revision: info?.revision ?? 0, segments };
      info = await ok(api.PATCH("/api/v1/media/{media_id}/transcript", { params: { path: this.doc.path }, body }));
      this.doc.changed(info, changes);
    }
    if (!info) throw new Conflict();
    return info;
  }

  // How

  private segment(id: string) {
    return this.doc.segments.find((each) => each.id === id);
  }

  private leave(draft: Draft): void {
    if (this.openId === draft.id) this.openId = null;
  }

  private markConflict(draft: Draft): void {
    const segment = this.segment(draft.id);
    draft.theirs = segment ? { text: segment.text, speaker: segment.speaker } : null;
    draft.state = "conflict";
    draft.problem = "";
  }

  private tellOfUndo(said: string): void {
    toasts.show(said, { tone: "good", action: { label: t.common.undo, run: () => void this.undo() } });
  }
}

function isOvertaken(error: unknown): boolean {
  return error instanceof Problem && (error.code === "edited_meanwhile" || error.status === 404);
}
