/** A profile while somebody edits it. Pure. */
import type { FieldError, Profile } from "../lib/api";
import { DEFAULT_PROFILE } from "../lib/speech";
import type { components } from "../lib/schema";
import { t } from "./texts";

export type ProfileSettings = components["schemas"]["ProfileSettings"];

export interface DraftRung {
  /** Stays with the row when rows move. */
  key: number;
  height: number | null;
  bitrate: number | null;
}

export interface Draft {
  name: string;
  ladder: DraftRung[];
  codecs: string[];
  preset: string;
  crf: number | null;
  segment_seconds: number | null;
  audio_bitrate: number | null;
  original: boolean;
  original_bitrate: number | null;
  keep_original: boolean;
  encoder: string;
  divide_after: number | null;
  span_seconds: number | null;
}

export const DEFAULT = DEFAULT_PROFILE;
export const CODECS = ["h264", "hevc", "av1"];
export const PRESETS = ["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower"];
export const ENCODERS = ["auto", "software", "nvenc", "qsv", "vaapi", "videotoolbox"];
export const MOST_RUNGS = 12;
const NUMBERS = ["crf", "segment_seconds", "audio_bitrate", "divide_after", "span_seconds"] as const;
/** What people usually want, from the largest. */
const USUAL: [number, number][] = [
  [2160, 15_000],
  [1440, 8_000],
  [1080, 5_000],
  [720, 2_500],
  [480, 1_000],
  [360, 600],
  [240, 300],
];

let lastKey = 0;

export function draftOf(profile: Profile, name = profile.name): Draft {
  return {
    name,
    ladder: profile.ladder.map(({ height, bitrate }) => ({ key: (lastKey += 1), height, bitrate })),
    codecs: [...profile.codecs],
    preset: profile.preset,
    crf: profile.crf,
    segment_seconds: profile.segment_seconds,
    audio_bitrate: profile.audio_bitrate,
    original: profile.original,
    original_bitrate: profile.original_bitrate,
    keep_original: profile.keep_original,
    encoder: profile.encoder,
    divide_after: profile.divide_after,
    span_seconds: profile.span_seconds,
  };
}

export function settingsOf(draft: Draft): ProfileSettings {
  const { name: _, ladder, ...rest } = draft;
  return {
    ...rest,
    codecs: CODECS.filter((each) => draft.codecs.includes(each)),
    ladder: ladder.map(({ height, bitrate }) => ({ height: height ?? 0, bitrate: bitrate ?? 0 })),
  };
}

/** Empty fields would silently mean the built-in value. */
export function missing(draft: Draft): FieldError[] {
  const message = t.settings.needed;
  const wrong: FieldError[] = NUMBERS.filter((name) => draft[name] === null).map((field) => ({ field, message }));
  draft.ladder.forEach((rung, row) => {
    if (rung.height === null) wrong.push({ field: `ladder.${row}.height`, message });
    if (rung.bitrate === null) wrong.push({ field: `ladder.${row}.bitrate`, message });
  });
  return wrong;
}

/** Rules between fields come under the name "profile": the sentence begins with the field. */
export function placeOf(error: FieldError): FieldError {
  if (error.field !== "profile") return error;
  const field = /^(ladder|codecs)\b/i.exec(error.message)?.[1]?.toLowerCase() ?? /`\$\.(\w+)/.exec(error.message)?.[1];
  return field ? { ...error, field } : error;
}

/** The largest usual size below the smallest there is, or what is still missing above. */
export function anotherRung(ladder: readonly DraftRung[]): DraftRung {
  const heights = ladder.map((each) => each.height ?? 0);
  const smallest = Math.min(...heights, Infinity);
  const free = USUAL.filter(([height]) => !heights.includes(height));
  const [height, bitrate] = free.find(([each]) => each < smallest) ?? free[0] ?? [null, null];
  return { key: (lastKey += 1), height, bitrate };
}

export function moved<T>(rows: readonly T[], from: number, to: number): T[] {
  if (to < 0 || to >= rows.length) return [...rows];
  const rest = rows.filter((_, at) => at !== from);
  return [...rest.slice(0, to), rows[from]!, ...rest.slice(to)];
}

/** A name that is still free: "talks-copy", "talks-copy-2". */
export function freeName(wanted: string, taken: readonly string[]): string {
  let name = wanted;
  for (let number = 2; taken.includes(name); number += 1) name = `${wanted}-${number}`;
  return name;
}
