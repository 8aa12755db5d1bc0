/** What can be asked for. Pure. */
import type { Media, Profile } from "../lib/api";
import { termsOf } from "../lib/speech";
import { t } from "./texts";
import { milliseconds, precise, written } from "./times";

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

export interface ExportChoice {
  format: "mp4" | "m4a" | "mp3";
  /** Empty: the best. */
  rendition: string;
  isClip: boolean;
  /** As somebody wrote them. */
  start: string;
  end: string;
  captions: boolean;
  exact: boolean;
}

const SHORTEST_SECONDS = 0.1;

/** What is wrong with the part that was written, and on which side. */
export function exportProblem(start: number | undefined, end: number | undefined, length: number): { side: "start" | "end"; text: string } | null {
  const texts = t.watch.exports;
  if (start === undefined) return { side: "start", text: texts.time };
  if (end === undefined) return { side: "end", text: texts.time };
  if (length && start > length - SHORTEST_SECONDS) return { side: "start", text: texts.beyond(precise(length)) };
  // What is shown is rounded.
  if (length && end > length + SHORTEST_SECONDS) return { side: "end", text: texts.beyond(precise(length)) };
  return end - start < SHORTEST_SECONDS ? { side: "end", text: texts.order } : null;
}

/** As the server is asked. */
export function exportBody(choice: ExportChoice, length: number | null) {
  const isPicture = choice.format === "mp4";
  const start = choice.isClip ? milliseconds(written(choice.start) ?? 0) : 0;
  const end = choice.isClip ? written(choice.end) : undefined;
  return {
    format: choice.format,
    rendition: (isPicture && choice.rendition) || null,
    start,
    end: end === undefined || (length !== null && end >= length - SHORTEST_SECONDS / 2) ? null : milliseconds(end),
    burn_captions: isPicture && choice.captions,
    exact: isPicture && choice.exact && start > 0,
  };
}
