/** Finding, grouping and showing the server's settings. Pure. */
import type { components } from "../lib/schema";
import { t } from "./texts";

export type Setting = components["schemas"]["Setting"];

const HIDDEN = "***";
const PREFIX = "RUSHES_";
/** The sections where the rest of a group is. */
export const SEE_ALSO: Record<string, string[]> = {
  defaults: ["profiles", "transcription", "models"],
  limits: ["limits", "users"],
  alerts: ["webhooks"],
};

export interface Group {
  id: string;
  items: Setting[];
}

/** Those that can be changed here, in the order of our words for them; what we have none for is last. */
export function grouped(settings: readonly Setting[]): Group[] {
  const order = Object.keys(t.settings.server.titles);
  const place = (each: Setting) => {
    const at = order.indexOf(key(each));
    return at < 0 ? order.length : at;
  };
  const known = Object.keys(t.settings.server.groups);
  const ids = new Set([...known, ...settings.flatMap((each) => each.page ?? [])]);
  return [...ids]
    .map((id) => ({ id, items: settings.filter((each) => each.page === id).sort((a, b) => place(a) - place(b)) }))
    .filter((group) => group.items.length);
}

export function titleOf(setting: Setting): string {
  return t.settings.server.titles[key(setting)] ?? setting.name;
}

/** Those that have every word of the query in their name, words or value. */
export function found(settings: readonly Setting[], query: string): Setting[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return settings.filter((each) => {
    const about = [each.name, each.name.replaceAll("_", " "), titleOf(each), each.sentence, valueOf(each).text];
    const text = about.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** `isWord`: our word for a value, not the value itself. */
export function valueOf(setting: Setting): { text: string; isWord: boolean } {
  const words = t.settings.server;
  if (setting.shown === HIDDEN) return { text: words.hidden, isWord: true };
  if (setting.shown) return { text: wordFor(setting, setting.shown), isWord: false };
  return { text: setting.page && setting.default ? words.own : words.empty, isWord: true };
}

/** Its explanation, without the marks of documents. */
export function aboutOf(setting: Setting): string {
  return setting.sentence.replaceAll("`", "");
}

/** What the server calls a value, in our words. */
export function wordFor(setting: Setting, value: string): string {
  const words = t.settings.server;
  if (setting.control === "switch") return value.toLowerCase() === "true" ? words.yes : words.no;
  if (setting.page && setting.control === "choice") return words.choices[value] ?? value;
  return value || words.empty;
}

function key(setting: Setting): string {
  return setting.name.startsWith(PREFIX) ? setting.name.slice(PREFIX.length) : setting.name;
}
