/** What can be asked for. Pure. */
import type { Media, Profile } from "../lib/api";
import { termsOf } from "../lib/speech";

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

/** Empty: as the profile says. */
export type SpeakerChoice = "" | "none" | "find" | "number";

export interface SpeechOptions {
  /** What is empty is as it says. */
  profile: string;
  model: string;
  language: string;
  speakers: SpeakerChoice;
  count: number;
  translate: boolean;
  vocabulary: string;
}

/** As the server is asked. */
export function speechBody(options: SpeechOptions) {
  const terms = termsOf(options.vocabulary);
  return {
    profile: options.profile || null,
    model: options.model || null,
    language: options.language || null,
    diarize: options.speakers ? options.speakers !== "none" : null,
    speakers: options.speakers === "number" ? options.count : null,
    task: options.translate ? "translate" : "transcribe",
    vocabulary: terms.length ? terms : null,
  };
}
