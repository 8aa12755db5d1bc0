/** Kinds as a server tells them: Rushes' own, and those of somebody's package. */
import type { Kind } from "../src/lib/api";
import { kinds } from "../src/lib/kinds.svelte";

const kind = (name: string, label: string, more: Partial<Kind> = {}): Kind => ({
  name,
  label,
  output: name,
  shared: false,
  follows: [],
  needs: [],
  housekeeping: false,
  remote: true,
  events: name,
  parts: [],
  can_start: false,
  ...more,
});

const makes = { output: "watch", parts: ["span"] };
const house = { output: null, housekeeping: true };

kinds.items = [
  kind("transcode", "Encode", { ...makes, parts: ["span", "prepare"] }),
  kind("trim", "Trim", makes),
  kind("composite", "Overlay", makes),
  kind("prepare", "Beginning of an encode", house),
  kind("span", "Part of an encode", house),
  kind("transcribe", "Transcribe", { output: "transcript", events: "transcription" }),
  kind("purge", "Clean up", { ...house, remote: false }),
  kind("webhook", "Webhook", { ...house, remote: false }),
  kind("import", "Import", { remote: false }),
  kind("acme.summarize", "Summary", { output: "summary", events: "acme.summary", parts: ["acme.chapter"], can_start: true }),
  kind("acme.chapter", "Chapter"),
];
