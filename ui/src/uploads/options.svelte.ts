/** What is to be done with new files; remembered in this browser. */
const KEPT = "rushes.upload-options";

export interface UploadOptions {
  transcribe: boolean;
  /** Empty: it is detected. */
  language: string;
  /** Empty: only where each speaker has a channel, or as the transcription profile says. */
  diarize: "" | "yes" | "no";
  /** Empty: the default one. */
  profile: string;
  /** Empty: the default one, if there is one. */
  speechProfile: string;
}

const PLAIN: UploadOptions = { transcribe: true, language: "", diarize: "", profile: "", speechProfile: "" };

export function optionsOf(text: string | null): UploadOptions {
  let kept: Partial<Record<keyof UploadOptions, unknown>> = {};
  try {
    kept = Object(JSON.parse(text ?? "{}"));
  } catch {
    // Whatever is there was not written by us.
  }
  const word = (value: unknown) => (typeof value === "string" && value.length < 100 ? value : "");
  return {
    transcribe: kept.transcribe !== false,
    language: word(kept.language),
    diarize: kept.diarize === "yes" || kept.diarize === "no" ? kept.diarize : "",
    profile: word(kept.profile),
    speechProfile: word(kept.speechProfile),
  };
}

/** As an upload tells the server. */
export function metadataOf(file: { name: string; type: string }, options: UploadOptions & { folder?: string }): Record<string, string> {
  return {
    filename: file.name,
    ...(file.type ? { filetype: file.type } : {}),
    transcribe: String(options.transcribe),
    ...(options.transcribe && options.language ? { language: options.language } : {}),
    ...(options.transcribe && options.diarize ? { diarize: String(options.diarize === "yes") } : {}),
    ...(options.transcribe && options.speechProfile ? { transcription_profile: options.speechProfile } : {}),
    ...(options.profile ? { profile: options.profile } : {}),
    ...(options.folder ? { folder: options.folder } : {}),
  };
}

class Kept {
  now = $state.raw<UploadOptions>(read());

  change(part: Partial<UploadOptions>): void {
    this.now = { ...this.now, ...part };
    try {
      localStorage.setItem(KEPT, JSON.stringify(this.now));
    } catch {
      // It counts until the page is closed.
    }
  }
}

function read(): UploadOptions {
  try {
    return optionsOf(globalThis.localStorage?.getItem(KEPT) ?? null);
  } catch {
    return PLAIN;
  }
}

export const options = new Kept();
