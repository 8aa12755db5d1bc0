/** Workers in words. Pure. */
import type { Worker } from "../lib/api";
import { bytes } from "../lib/format";
import { kinds } from "../lib/kinds.svelte";
import { t } from "./texts";

export type Tone = "good" | "busy" | "wait" | "bad" | "plain";

const TONES: Record<string, Tone> = { idle: "good", busy: "busy", draining: "wait", offline: "bad" };
const ORDER = ["busy", "idle", "draining", "active", "offline", "disabled"];

/** What is true of it first: being told to stop counts only for those that are there. */
export function statusOf(worker: Worker): string {
  const isThere = worker.status === "idle" || worker.status === "busy";
  return isThere && worker.state === "draining" ? "draining" : worker.status;
}

export const toneOf = (status: string): Tone => TONES[status] ?? "plain";

export function sorted(workers: Worker[]): Worker[] {
  const rank = (worker: Worker) => ORDER.indexOf(statusOf(worker));
  // The one that works now is not moved to the top for each job: those that are there keep their places.
  const place = (worker: Worker) => (rank(worker) <= 1 ? 0 : rank(worker));
  return workers.toSorted((one, other) => place(one) - place(other) || one.name.localeCompare(other.name) || one.id.localeCompare(other.id));
}

export const isOnline = (worker: Worker): boolean => worker.status === "idle" || worker.status === "busy";
/** Only there for what nobody has to look after. */
export const isHousekeeper = (worker: Worker): boolean =>
  isInside(worker) && worker.kinds.length > 0 && worker.kinds.every((kind) => kinds.isHousekeeping(kind));
export const isInside = (worker: Worker): boolean => worker.metadata["place"] === "server";

/** "Rushes 1.2 · Linux x86_64 · 8 cores · 16.0 GB memory", of what it has told. */
export function machineOf(worker: Worker): string {
  const { host, node_name: node, version, platform, cores, memory_bytes: memory } = worker.metadata as Record<string, unknown>;
  const words = [
    typeof host === "string" && host !== worker.name ? host : "",
    typeof node === "string" ? node : "",
    typeof version === "string" ? t.workers.version(version) : "",
    typeof platform === "string" ? platform : "",
    typeof cores === "number" ? t.workers.cores(cores) : "",
    typeof memory === "number" ? t.workers.memory(bytes(memory)) : "",
  ];
  return words.filter(Boolean).join(" · ");
}

export const wordOf = (capability: string): string => t.workers.words[capability] ?? capability;

/** An address that only this machine knows is of no use on another. */
export function isLocal(command: string): boolean {
  const found = /--server (\S+)/.exec(command)?.[1] ?? "";
  try {
    return ["localhost", "127.0.0.1", "[::1]"].includes(new URL(found).hostname);
  } catch {
    return false;
  }
}
