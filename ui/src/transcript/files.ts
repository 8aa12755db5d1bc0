/** Transcripts that are taken along, and captions that are brought. */
import { api, idempotencyKey, ok, type TranscriptInfo } from "../lib/api";
import type { paths } from "../lib/schema";
import type { Segment } from "./segments";
import { nameOf } from "./speakers";
import { t } from "./texts";

/** As the server offers them; captions first. */
type Format = NonNullable<NonNullable<paths["/api/v1/media/{media_id}/transcript"]["get"]["parameters"]["query"]>["format"]>;
export const FORMATS = ["vtt", "srt", "txt", "docx", "md", "csv", "json"] as const satisfies readonly Format[];
export const CAPTION_FILES = ".vtt,.srt,.txt,.json,text/vtt,application/x-subrip,text/plain,application/json";
const TYPES: Readonly<Record<string, string>> = { srt: "application/x-subrip", txt: "text/plain", json: "application/json" };
const IMPORT_LIMIT_BYTES = 10 * 2 ** 20;

export function fileUrl(mediaId: string, format: string): string {
  return `/api/v1/media/${encodeURIComponent(mediaId)}/transcript?format=${format}`;
}

export async function importCaptions(mediaId: string, file: File): Promise<TranscriptInfo> {
  if (file.size > IMPORT_LIMIT_BYTES) throw new Error(t.transcript.tooBig);
  const type = TYPES[file.name.toLowerCase().split(".").at(-1) ?? ""] ?? "text/vtt";
  // The bytes as they are: the server knows old code pages.
  const content = await file.arrayBuffer();
  return ok(
    api.POST("/api/v1/media/{media_id}/transcript/import", {
      // Whoever gets here was asked.
      params: { path: { media_id: mediaId }, query: { replace: true } },
      headers: { ...idempotencyKey(), "Content-Type": type },
      body: "",
      bodySerializer: () => content,
    }),
  );
}

/** A paragraph for each turn. */
export function plainText(segments: readonly Segment[], names: Readonly<Record<string, string>>): string {
  const paragraphs: { speaker: string | null; texts: string[] }[] = [];
  for (const segment of segments) {
    const last = paragraphs.at(-1);
    if (last && last.speaker === segment.speaker && !segment.bare) last.texts.push(segment.text);
    else paragraphs.push({ speaker: segment.speaker, texts: [segment.text] });
  }
  const name = (speaker: string | null) => (speaker === null ? "" : `${nameOf(speaker, names)}: `);
  return paragraphs.map((each) => name(each.speaker) + each.texts.join(" ")).join("\n\n");
}
