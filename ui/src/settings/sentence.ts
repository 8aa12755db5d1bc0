/** What the server says, as a sentence for people. Pure. */
import { Problem, sentenceOf, type FieldError } from "../lib/api";
import { capital } from "../lib/format";
import { t } from "./texts";

/** "must be a word" → "Must be a word." */
export function sentence(words: string): string {
  const said = words
    .trim()
    .replace(/^Input should be /, "Must be ")
    .replace(/^String should have at most (\d+) characters?/, "Must have at most $1 characters")
    .replace(/^String should match pattern .*/s, t.settings.wrongCharacters);
  if (!said) return "";
  const whole = capital(said);
  return /[.!?…:]$/.test(whole) ? whole : `${whole}.`;
}

/** The fields of a problem with sentences that do not repeat the field's name. */
export function fieldsOf(error: unknown): FieldError[] {
  if (!(error instanceof Problem)) return [];
  return error.fields.map(({ field, message }) => {
    const plain = message.startsWith(`${field}: `) ? message.slice(field.length + 2) : message;
    return { field, message: sentence(plain) };
  });
}

export function said(error: unknown): string {
  return sentence(sentenceOf(error));
}
