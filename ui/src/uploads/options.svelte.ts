/** What is to be done with new files; remembered in this browser. */
const KEPT = "rushes.upload-options";

export interface Wishes {
  transcribe: boolean;
  /** Empty: it is detected. */
  language: string;
  /** Empty: as the server is set. */
  diarize: "" | "yes" | "no";
  /** Empty: the default one. */
  profile: string;
}

const PLAIN: Wishes = { transcribe: true, language: "", diarize: "", profile: "" };

export function wishesOf(text: string | null): Wishes {
  let kept: Partial<Record<keyof Wishes, unknown>> = {};
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
  };
}

/** As an upload tells the server. */
export function metadataOf(file: { name: string; type: string }, wishes: Wishes): Record<string, string> {
  return {
    filename: file.name,
    ...(file.type ? { filetype: file.type } : {}),
    transcribe: String(wishes.transcribe),
    ...(wishes.transcribe && wishes.language ? { language: wishes.language } : {}),
    ...(wishes.transcribe && wishes.diarize ? { diarize: String(wishes.diarize === "yes") } : {}),
    ...(wishes.profile ? { profile: wishes.profile } : {}),
  };
}

class Kept {
  now = $state.raw<Wishes>(read());

  change(part: Partial<Wishes>): void {
    this.now = { ...this.now, ...part };
    try {
      localStorage.setItem(KEPT, JSON.stringify(this.now));
    } catch {
      // It counts until the page is closed.
    }
  }
}

function read(): Wishes {
  try {
    return wishesOf(globalThis.localStorage?.getItem(KEPT) ?? null);
  } catch {
    return PLAIN;
  }
}

export const wishes = new Kept();
