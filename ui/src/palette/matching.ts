/** Which commands are meant by a few letters. Pure. */
import { folded } from "../lib/folded";

export interface Named {
  text: string;
  /** Other words that it is looked for by. */
  also?: string;
}

/** Every word has to begin some word of the command; those whose name begins so come first. */
export function matching<T extends Named>(all: T[], said: string): T[] {
  const words = folded(said).split(/\s+/).filter(Boolean);
  if (!words.length) return all;
  return all
    .map((each) => ({ each, rank: rankOf(each, words) }))
    .filter(({ rank }) => rank > 0)
    .sort((a, b) => b.rank - a.rank)
    .map(({ each }) => each);
}

function rankOf(item: Named, words: string[]): number {
  const name = folded(item.text);
  const parts = `${name} ${folded(item.also ?? "")}`.split(/[^\p{L}\p{N}]+/u);
  if (!words.every((word) => parts.some((part) => part.startsWith(word)) || name.includes(words.join(" ")))) return 0;
  return name.startsWith(words[0]!) ? 2 : 1;
}
