/** Languages by name, as the reader of the page calls them. Pure. */
import { locale } from "../lib/language";

const COMMON = ["ar", "cs", "da", "de", "el", "en", "es", "fi", "fr", "he", "hi", "hu", "id", "it", "ja", "ko", "nl", "no", "pl", "pt", "ro", "ru", "sv", "th", "tr", "uk", "vi", "zh"];

export interface Language {
  code: string;
  name: string;
}

/** `known` are those that the speech engine names; none means that it does not say. */
export function languages(known: string[], reader = locale): Language[] {
  const names = new Intl.DisplayNames(reader, { type: "language", fallback: "code" });
  return (known.length ? known : COMMON)
    .map((code) => ({ code, name: nameOf(names, code) }))
    .sort((a, b) => a.name.localeCompare(b.name, reader));
}

function nameOf(names: Intl.DisplayNames, code: string): string {
  try {
    return names.of(code) ?? code;
  } catch {
    return code;
  }
}
