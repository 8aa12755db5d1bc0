/** What is different between two texts, and between two transcripts. Pure. */
import type { Segment } from "./segments";

export interface Part {
  text: string;
  kind: "same" | "removed" | "added";
}

/** Two transcripts of the same moments. */
export interface Pair {
  start: number;
  before: string;
  after: string;
}

const STEPS_LIMIT = 40_000;
/** Two segments that begin this close to each other begin together. */
const TOGETHER_SECONDS = 0.5;
const PAIR_SECONDS = 60;

/** Word by word: what stays, what goes, what comes. */
export function compared(before: string, after: string): Part[] {
  const old = before.split(" ").filter(Boolean);
  const fresh = after.split(" ").filter(Boolean);
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(old.length, fresh.length) - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail += 1;
  const parts: Part[] = [
    { kind: "same", text: old.slice(0, head).join(" ") },
    ...middle(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail)),
    { kind: "same", text: tail ? old.slice(-tail).join(" ") : "" },
  ];
  return joined(parts);
}

function middle(old: string[], fresh: string[]): Part[] {
  if (old.length * fresh.length > STEPS_LIMIT) {
    return [
      { kind: "removed", text: old.join(" ") },
      { kind: "added", text: fresh.join(" ") },
    ];
  }
  const lengths = commonLengths(old, fresh);
  const parts: Part[] = [];
  let one = 0;
  let other = 0;
  while (one < old.length || other < fresh.length) {
    if (one < old.length && other < fresh.length && old[one] === fresh[other]) {
      parts.push({ kind: "same", text: old[one]! });
      one += 1;
      other += 1;
    } else if (other >= fresh.length || (one < old.length && lengths[one + 1]![other]! >= lengths[one]![other + 1]!)) {
      parts.push({ kind: "removed", text: old[one]! });
      one += 1;
    } else {
      parts.push({ kind: "added", text: fresh[other]! });
      other += 1;
    }
  }
  return parts;
}

/** How many words two rests have in common, for each pair of rests. */
function commonLengths(old: string[], fresh: string[]): number[][] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Array<number>(fresh.length + 1).fill(0));
  for (let one = old.length - 1; one >= 0; one -= 1) {
    for (let other = fresh.length - 1; other >= 0; other -= 1) {
      lengths[one]![other] =
        old[one] === fresh[other]
          ? lengths[one + 1]![other + 1]! + 1
          : Math.max(lengths[one + 1]![other]!, lengths[one]![other + 1]!);
    }
  }
  return lengths;
}

function joined(parts: Part[]): Part[] {
  const made: Part[] = [];
  for (const part of parts) {
    if (!part.text) continue;
    const last = made.at(-1);
    if (last?.kind === part.kind) last.text += ` ${part.text}`;
    else made.push({ ...part });
  }
  return made;
}

/** The moments at which two transcripts say different things. */
export function differences(before: readonly Segment[], after: readonly Segment[]): { pairs: Pair[]; of: number } {
  const all = pairs(before, after);
  const text = (given: string) => given.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
  return { pairs: all.filter((each) => text(each.before) !== text(each.after)), of: all.length };
}

function pairs(before: readonly Segment[], after: readonly Segment[]): Pair[] {
  const made: Pair[] = [];
  let one = 0;
  let other = 0;
  while (one < before.length || other < after.length) {
    const start = Math.min(before[one]?.start ?? Infinity, after[other]?.start ?? Infinity);
    const [firstOne, firstOther] = [one, other];
    do {
      if ((before[one]?.start ?? Infinity) <= (after[other]?.start ?? Infinity)) one += 1;
      else other += 1;
    } while (!isBoundary(before[one], after[other], start, one - firstOne, other - firstOther));
    const text = (segments: readonly Segment[]) => segments.map((each) => each.text).join(" ");
    made.push({ start, before: text(before.slice(firstOne, one)), after: text(after.slice(firstOther, other)) });
  }
  return made;
}

/** Whether both go on with something new here, or one of them has had enough. */
function isBoundary(one: Segment | undefined, other: Segment | undefined, start: number, ones: number, others: number): boolean {
  if (!one && !other) return true;
  const next = Math.min(one?.start ?? Infinity, other?.start ?? Infinity);
  if (next - start >= PAIR_SECONDS) return true;
  if (!one || !other) return ones > 0 && others > 0;
  return ones > 0 && others > 0 && Math.abs(one.start - other.start) <= TOGETHER_SECONDS;
}
