/** Uploads that were begun in this browser and not finished: what is left after a reload. */
import { forget, recall, type Handle } from "./handles";

const PREFIX = "tus::";
const ASK_MS = 250;

export interface Unfinished {
  /** Its place in the browser's storage. */
  key: string;
  url: string;
  name: string;
  size: number;
  /** Nothing when the server could not be asked. */
  sent: number | undefined;
  /** A way back to the file. */
  handle?: Handle;
}

export interface Note {
  key: string;
  url: string;
  name: string;
  size: number;
}

/** The notes that the uploads of a user have left, the newest first. */
export function notes(storage: Pick<Storage, "length" | "key" | "getItem">, owner: string): Note[] {
  const found: (Note & { at: number })[] = [];
  for (let at = 0; at < storage.length; at++) {
    const key = storage.key(at) ?? "";
    if (!key.startsWith(`${PREFIX}rushes-${owner}-`)) continue;
    const note = noteOf(key, storage.getItem(key));
    if (note) found.push(note);
  }
  return found.sort((a, b) => b.at - a.at).map(({ at: _, ...note }) => note);
}

function noteOf(key: string, text: string | null): (Note & { at: number }) | undefined {
  try {
    const kept = JSON.parse(text ?? "");
    if (typeof kept.uploadUrl !== "string" || typeof kept.size !== "number") return undefined;
    const name = String(kept.metadata?.filename ?? "");
    return { key, url: kept.uploadUrl, name, size: kept.size, at: Date.parse(kept.creationTime) || 0 };
  } catch {
    return undefined;
  }
}

/** The fingerprint in a note's key. */
export function markOf(key: string): string {
  return key.slice(PREFIX.length, key.lastIndexOf("::"));
}

/** Where it stands; nothing when it is over, and then its note is thrown away. */
export async function lookUp(note: Note): Promise<Unfinished | undefined> {
  try {
    const answer = await fetch(new URL(note.url, location.href).pathname, { method: "HEAD", headers: { "Tus-Resumable": "1.0.0" } });
    const sent = Number(answer.headers.get("Upload-Offset") ?? NaN);
    if (answer.status === 404 || answer.status === 410 || sent === note.size) {
      throwAway(note);
      return undefined;
    }
    return withHandle({ ...note, sent: answer.ok && Number.isFinite(sent) ? sent : undefined });
  } catch {
    return withHandle({ ...note, sent: undefined });
  }
}

async function withHandle(item: Unfinished): Promise<Unfinished> {
  const handle = await recall(markOf(item.key));
  return handle ? { ...item, handle } : item;
}

function throwAway(note: Note): void {
  localStorage.removeItem(note.key);
  void forget(markOf(note.key));
}

export async function giveUp(item: Unfinished): Promise<void> {
  throwAway(item);
  const headers = { "Tus-Resumable": "1.0.0" };
  // What remains on the server ends by itself after a while.
  await fetch(new URL(item.url, location.href).pathname, { method: "DELETE", headers }).catch(() => {});
}

/** Other windows of the same browser, which may be sending what looks unfinished from here. */
export class Neighbours {
  private channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("rushes.uploads") : undefined;
  private heard = new Set<string>();

  constructor(busyWith: () => string[]) {
    if (!this.channel) return;
    this.channel.onmessage = ({ data }) => {
      if (data === "who?") this.channel?.postMessage(busyWith());
      else if (Array.isArray(data)) data.forEach((mark) => this.heard.add(String(mark)));
    };
  }

  /** The fingerprints of what they are sending. */
  async ask(): Promise<Set<string>> {
    this.heard.clear();
    this.channel?.postMessage("who?");
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    return this.heard;
  }
}
