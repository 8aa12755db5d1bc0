/** Finding and showing the server's settings. Pure. */
import type { components } from "../lib/schema";
import { t } from "./texts";

export type Setting = components["schemas"]["Setting"];

const HIDDEN = "***";

/** Those that have every word of the query in their name, sentence or value. */
export function found(settings: readonly Setting[], query: string): Setting[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return settings.filter((each) => {
    const text = `${each.name} ${each.name.replaceAll("_", " ")} ${each.sentence} ${shown(each.value).text}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** `isWord`: our word for a value, not the value itself. */
export function shown(value: unknown): { text: string; isWord: boolean } {
  const words = t.settings.server;
  if (value === "" || value === null || value === undefined) return { text: words.empty, isWord: true };
  if (value === HIDDEN) return { text: words.hidden, isWord: true };
  return { text: typeof value === "object" ? JSON.stringify(value) : String(value), isWord: false };
}
