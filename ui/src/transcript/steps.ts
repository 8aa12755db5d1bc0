/** What can be undone and done again. Pure.

A step knows the revisions before and after it. As long as nobody else changes the text, going back
is going back to a revision, which brings the very words and times. After that, only the segments of
the step are put back, and only if nobody has touched them since. */
import type { Segment } from "./segments";

export interface Said {
  text: string;
  speaker: string | null;
}

/** One segment before and after; null where it was not there. */
export interface Change {
  id: string;
  before: Said | null;
  after: Said | null;
}

export interface Step {
  changes: Change[];
  from: number;
  to: number;
  /** Whether the revisions are still the way back. */
  exact: boolean;
}

export interface Steps {
  done: readonly Step[];
  undone: readonly Step[];
}

export interface Edit {
  id: string;
  text?: string;
  speaker?: string;
}

export const NO_STEPS: Steps = { done: [], undone: [] };
const LIMIT = 100;

export function added(steps: Steps, step: Step): Steps {
  return { done: [...steps.done, step].slice(-LIMIT), undone: [] };
}

export function wentBack(steps: Steps): Steps {
  const last = steps.done.at(-1);
  return last ? { done: steps.done.slice(0, -1), undone: [...steps.undone, last] } : steps;
}

export function wentOn(steps: Steps): Steps {
  const last = steps.undone.at(-1);
  return last ? { done: [...steps.done, last], undone: steps.undone.slice(0, -1) } : steps;
}

/** Somebody else has changed the text: its revisions lead past that. */
export function blurred(steps: Steps): Steps {
  const blur = (all: readonly Step[]) => all.map((each) => (each.exact ? { ...each, exact: false } : each));
  return { done: blur(steps.done), undone: blur(steps.undone) };
}

/** What the edits do to the segments. */
export function changesOf(segments: readonly Segment[], edits: readonly Edit[]): Change[] {
  const byId = new Map(segments.map((each) => [each.id, each]));
  return edits.flatMap((edit) => {
    const segment = byId.get(edit.id);
    if (!segment) return [];
    const before = { text: segment.text, speaker: segment.speaker };
    const text = edit.text ?? segment.text;
    const speaker = edit.speaker === undefined ? segment.speaker : edit.speaker || null;
    return [{ id: edit.id, before, after: text ? { text, speaker } : null }];
  });
}

/** The changes the other way round. */
export function reversed(changes: readonly Change[]): Change[] {
  return changes.map(({ id, before, after }) => ({ id, before: after, after: before }));
}

/** The edits that make the changes; nothing when a segment is not as it was before them. */
export function editsFor(changes: readonly Change[], segments: readonly Segment[]): Edit[] | undefined {
  const byId = new Map(segments.map((each) => [each.id, each]));
  const edits: Edit[] = [];
  for (const { id, before, after } of changes) {
    const segment = byId.get(id);
    if (!segment || !before || segment.text !== before.text || segment.speaker !== before.speaker) return undefined;
    edits.push({
      id,
      ...(after?.text === before.text ? {} : { text: after?.text ?? "" }),
      ...(!after || after.speaker === before.speaker ? {} : { speaker: after.speaker ?? "" }),
    });
  }
  return edits;
}

/** The segments with the changes made, before the server has told their words. */
export function applied(segments: readonly Segment[], changes: readonly Change[]): Segment[] {
  const byId = new Map(changes.map((each) => [each.id, each]));
  return segments.flatMap((segment) => {
    const change = byId.get(segment.id);
    if (!change) return [segment];
    return change.after ? [{ ...segment, ...change.after }] : [];
  });
}
