/** Why a transcription has not begun, in a sentence. Pure. */
import type { components } from "../lib/schema";
import { t } from "./texts";

type Why = components["schemas"]["Why"];

export function waitingFor(why: Why): string {
  const said = why.reasons.map(({ code, sentence }) => {
    // The server's sentence has a job's number in it, which nobody knows here.
    if (code === "parent") return t.transcript.afterEncoding;
    return typeof sentence === "string" ? sentence : "";
  });
  const position = why.position ?? 0;
  if (position > 1) said.unshift(t.transcript.position(position));
  return said.filter(Boolean).join(" ") || t.transcript.next;
}
