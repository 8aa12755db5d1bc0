/** What can be asked for. Pure. */
import type { Media, Profile, SpeechModel } from "../lib/api";

/** The names of what a profile would make of a media; without a profile, of what was made. */
export function qualitiesToMake(media: Media, profile: Profile | undefined): string[] {
  if (!profile) {
    return media.renditions.filter((each) => /^\d+p/.test(each.name) && each.status !== "skipped").map((each) => each.name);
  }
  if (media.kind === "audio") return [];
  const lines = Math.min(media.width ?? Infinity, media.height ?? Infinity);
  const codecs = ["h264", "hevc", "av1"].filter((each) => profile.codecs.includes(each));
  return codecs.flatMap((codec) =>
    profile.ladder.filter((rung) => rung.height <= lines).map((rung) => `${rung.height}p${codec === "h264" ? "" : `-${codec}`}`),
  );
}

/** Codes that a model understands, in the order of their names; those of all when it does not say. */
export function languagesOf(models: SpeechModel[], chosen: string, name: (code: string) => string): [string, string][] {
  const model = models.find((each) => (chosen ? each.id === chosen : each.default));
  const codes = model?.languages.length ? model.languages : models.flatMap((each) => each.languages);
  return [...new Set(codes)].map((code): [string, string] => [code, name(code)]).sort((one, other) => one[1].localeCompare(other[1]));
}

export type SpeakerChoice = "none" | "find" | "number";

export interface SpeechOptions {
  model: string;
  language: string;
  speakers: SpeakerChoice;
  count: number;
  translate: boolean;
  vocabulary: string;
}

const MOST_TERMS = 100;
const LONGEST_TERM = 100;

/** One term on each line, or between commas. */
export function termsOf(text: string): string[] {
  return [...new Set(text.split(/[\n,]/).map((each) => each.trim()).filter(Boolean))];
}

export function vocabularyFits(text: string): boolean {
  const terms = termsOf(text);
  return terms.length <= MOST_TERMS && terms.every((each) => each.length <= LONGEST_TERM);
}

/** As the server is asked. */
export function speechBody(options: SpeechOptions) {
  const terms = termsOf(options.vocabulary);
  return {
    model: options.model || null,
    language: options.language || null,
    diarize: options.speakers !== "none",
    speakers: options.speakers === "number" ? options.count : null,
    task: options.translate ? "translate" : "transcribe",
    vocabulary: terms.length ? terms : null,
  };
}
