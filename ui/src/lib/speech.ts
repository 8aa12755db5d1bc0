/** What a transcription can be told: models, languages, names and terms. Pure. */
import type { SpeechModel } from "./api";
import { bytes } from "./format";
import { locale } from "./language";
import { t } from "./texts";

/** A profile that is called so is used where no other is named. */
export const DEFAULT_PROFILE = "default";
const MOST_TERMS = 100;
const LONGEST_TERM = 100;

/** In a list to choose from. */
export function modelName(model: SpeechModel): string {
  const name = model.title || model.name;
  return model.installed ? name : `${name} – ${t.speech.modelMissing(bytes(model.size_bytes))}`;
}

/** Codes that a model understands, in the order of their names; those of all when it does not say. */
export function languagesOf(models: SpeechModel[], chosen: string, name: (code: string) => string): [string, string][] {
  const model = models.find((each) => (chosen ? each.id === chosen : each.default));
  const codes = model?.languages.length ? model.languages : models.flatMap((each) => each.languages);
  return [...new Set(codes)].map((code): [string, string] => [code, name(code)]).sort((one, other) => one[1].localeCompare(other[1], locale));
}

/** One term on each line, or between commas. */
export function termsOf(text: string): string[] {
  return [...new Set(text.split(/[\n,]/).map((each) => each.trim()).filter(Boolean))];
}

export function vocabularyFits(text: string): boolean {
  const terms = termsOf(text);
  return terms.length <= MOST_TERMS && terms.every((each) => each.length <= LONGEST_TERM);
}
