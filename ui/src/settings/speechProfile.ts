/** A transcription profile while somebody edits it. Pure. */
import type { FieldError, TranscriptionProfile } from "../lib/api";
import type { components } from "../lib/schema";
import { termsOf } from "../lib/speech";
import { t } from "./texts";

export type SpeechOptions = components["schemas"]["SpeechOptions"];

/** Empty: as the server is set. */
export type Speakers = "" | "none" | "find" | "number" | "range";

export interface SpeechDraft {
  name: string;
  model: string;
  language: string;
  speakers: Speakers;
  count: number | null;
  least: number | null;
  most: number | null;
  track: number | null;
  translate: boolean;
  prompt: string;
  vocabulary: string;
}

export const EMPTY: SpeechDraft = {
  name: "",
  model: "",
  language: "",
  speakers: "",
  count: 2,
  least: 2,
  most: 4,
  track: null,
  translate: false,
  prompt: "",
  vocabulary: "",
};

export function draftOf(profile: TranscriptionProfile, name = profile.name): SpeechDraft {
  return {
    name,
    model: profile.model ?? "",
    language: profile.language ?? "",
    speakers: speakersOf(profile),
    count: profile.speakers ?? EMPTY.count,
    least: profile.min_speakers ?? (profile.max_speakers ? null : EMPTY.least),
    most: profile.max_speakers ?? (profile.min_speakers ? null : EMPTY.most),
    track: profile.track ?? null,
    translate: profile.task === "translate",
    prompt: profile.prompt ?? "",
    vocabulary: (profile.vocabulary ?? []).join("\n"),
  };
}

function speakersOf(profile: SpeechOptions): Speakers {
  if (profile.speakers) return "number";
  if (profile.min_speakers || profile.max_speakers) return "range";
  if (profile.diarize) return "find";
  return profile.diarize === false ? "none" : "";
}

export function optionsOf(draft: SpeechDraft): SpeechOptions {
  const terms = termsOf(draft.vocabulary);
  const isRange = draft.speakers === "range";
  return {
    model: draft.model || null,
    language: draft.language || null,
    diarize: draft.speakers ? draft.speakers !== "none" : null,
    speakers: draft.speakers === "number" ? draft.count : null,
    min_speakers: isRange ? draft.least : null,
    max_speakers: isRange ? draft.most : null,
    track: draft.track,
    task: draft.translate ? "translate" : null,
    prompt: draft.prompt.trim() || null,
    vocabulary: terms.length ? terms : null,
  };
}

/** What the server could not tell from something left out on purpose. */
export function missing(draft: SpeechDraft): FieldError[] {
  if (draft.speakers === "number" && draft.count === null) return [{ field: "speakers", message: t.settings.needed }];
  if (draft.speakers !== "range") return [];
  if (draft.least === null && draft.most === null) return [{ field: "min_speakers", message: t.settings.needed }];
  const isTurned = draft.least !== null && draft.most !== null && draft.least > draft.most;
  return isTurned ? [{ field: "max_speakers", message: t.settings.speech.turned }] : [];
}

/** A single term is not told apart: the field has all of them. */
export function placeOf(error: FieldError): FieldError {
  const term = /^vocabulary\.(\d+)/.exec(error.field);
  return term ? { field: "vocabulary", message: t.settings.speech.term(Number(term[1]) + 1, error.message) } : error;
}

/** In a line, for lists. */
export function summaryOf(profile: SpeechOptions, languageName: (code: string) => string): string {
  const words = t.settings.speech;
  const said = [
    profile.model ?? "",
    profile.language ? languageName(profile.language) : "",
    profile.task === "translate" ? words.translated : "",
    words.speakersShort(speakersOf(profile), profile),
    profile.track ? words.trackShort(profile.track) : "",
    profile.prompt ? words.withPrompt : "",
    profile.vocabulary?.length ? words.terms(profile.vocabulary.length) : "",
  ];
  return said.filter(Boolean).join(" · ") || words.nothing;
}
