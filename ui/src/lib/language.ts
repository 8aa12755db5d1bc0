/** The language of the pages: which one it is, its words, and how it writes numbers.

Texts are English objects by folder (`texts.ts`); a translation has objects of the same shape and
is fetched before anything is shown. Its words then take the places of the English ones, so that
whoever holds `t` need not know. Another language takes a reload. */

/** As they call themselves. */
export const LANGUAGES = { en: "English", de: "Deutsch" };
export type Language = keyof typeof LANGUAGES;

const KEPT = "rushes.language";

export const language: Language = wanted();
/** With the region that the reader has set, such as de-CH. */
export const locale: string = preferred().find((each) => baseOf(each) === language) ?? language;

/** Kept in this browser, as the colours are. */
export function chooseLanguage(chosen: Language): void {
  try {
    localStorage.setItem(KEPT, chosen);
  } catch {
    // Without storage the browser's languages count.
  }
  location.reload();
}

function wanted(): Language {
  return [kept(), ...preferred().map(baseOf)].find(isSpoken) ?? "en";
}

function kept(): string {
  try {
    return localStorage.getItem(KEPT) ?? "";
  } catch {
    return "";
  }
}

/** Nothing outside of a page: what a machine is set to does not matter to tests. */
function preferred(): readonly string[] {
  return typeof document === "undefined" ? [] : navigator.languages;
}

function baseOf(tag: string): string {
  return tag.split("-")[0]!.toLowerCase();
}

function isSpoken(name: string): name is Language {
  return Object.hasOwn(LANGUAGES, name);
}

/** Words by a code of the server, which may have more codes than there are words. */
export type ByCode<K extends string | number> = Record<K, string> & Record<string, string>;

export function byCode<K extends string | number>(words: Record<K, string>): ByCode<K> {
  return words as ByCode<K>;
}

/** What a translation has to say: no word less, no word more. */
export type Translation<T> = T extends string | ((...given: never[]) => string) | readonly unknown[]
  ? T
  : { [K in keyof T as string extends K ? never : K]: Translation<T[K]> };

type Section = Record<string, unknown>;
const sections: Record<string, Section> = {};
let translated: Record<string, object> = {};

/** The same objects, whose words are those of the reader's language once it is there. */
export function translatable<T extends Record<string, object>>(english: T): T {
  for (const [name, section] of Object.entries(english)) {
    sections[name] = section as Section;
    replace(sections[name], translated[name]);
  }
  return english;
}

/** To be awaited before anything is shown. Pages without their translation speak English. */
export async function translate(translations: Record<Exclude<Language, "en">, () => Promise<{ default: Record<string, object> }>>): Promise<void> {
  if (language === "en") return;
  try {
    translated = (await translations[language]()).default;
  } catch {
    return;
  }
  document.documentElement.lang = language;
  for (const [name, section] of Object.entries(sections)) replace(section, translated[name]);
}

function replace(section: Section, words: object | undefined): void {
  for (const [key, said] of Object.entries(words ?? {})) {
    const before = section[key];
    if (typeof before === "object" && before !== null && !Array.isArray(before)) replace(before as Section, said as object);
    else section[key] = said;
  }
}

const rules = new Intl.PluralRules(locale);
type Forms = Partial<Record<Intl.LDMLPluralRule, string>>;

/** "1 job", "2 jobs". Languages with more forms than two name them in `more`. */
export function plural(count: number, one: string, other: string, more: Forms = {}): string {
  const forms: Forms = { one, ...more };
  return `${formatNumber(count)} ${forms[rules.select(count)] ?? other}`;
}

/** Making one takes longer than using it. */
const formats = new Map<number | undefined, Intl.NumberFormat>();

/** "12,345"; with `digits` behind the point, "3.10". */
export function formatNumber(value: number, digits?: number): string {
  let format = formats.get(digits);
  if (!format) {
    format = new Intl.NumberFormat(locale, digits === undefined ? {} : { minimumFractionDigits: digits, maximumFractionDigits: digits });
    formats.set(digits, format);
  }
  return format.format(value);
}
