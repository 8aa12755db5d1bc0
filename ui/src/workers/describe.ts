/** Workers in words. Pure. */
import type { Worker } from "../lib/api";
import { bytes, time, weekdayTime } from "../lib/format";
import { kinds } from "../lib/kinds.svelte";
import { t } from "./texts";

export type Tone = "good" | "busy" | "wait" | "bad" | "plain";

const TONES: Record<string, Tone> = { idle: "good", busy: "busy", resting: "wait", draining: "wait", upgrade: "bad", offline: "bad" };
const ORDER = ["busy", "idle", "resting", "draining", "upgrade", "active", "offline", "disabled"];
const SETTINGS = ["schedule", "rest", "nice", "concurrency", "tags", "scratch_budget", "idle_unload"];
// Of the server's whole process, not of one worker in it.
const OF_PROCESS = ["nice", "idle_unload"];

/** What is true of it first: being told to stop counts only for those that are there. */
export function statusOf(worker: Worker): string {
  const isThere = worker.status === "idle" || worker.status === "busy";
  if (isThere && worker.upgrade) return "upgrade";
  if (isThere && worker.state === "draining") return "draining";
  return worker.status === "idle" && worker.resting_until ? "resting" : worker.status;
}

/** "Resting until 22:00", "Too old: upgrade". */
export function statusText(worker: Worker, now: number): string {
  const status = statusOf(worker);
  if (status === "resting") return t.workers.resting(restsUntil(worker, now));
  if (status === "upgrade") return worker.upgrade?.startsWith("too new") ? t.workers.tooNew : t.workers.tooOld;
  return t.workers.status[status] ?? status;
}

/** "22:00", or "Mon 22:00" if that is not within a day; "" if it does not rest. */
export function restsUntil(worker: Worker, now: number): string {
  if (!worker.resting_until) return "";
  const isSoon = Date.parse(worker.resting_until) - now < 24 * 3600 * 1000;
  return (isSoon ? time : weekdayTime)(worker.resting_until);
}

/** What an admin may say of it. */
export const settingNames = (worker: Worker): string[] =>
  SETTINGS.filter((name) => !(isInside(worker) && OF_PROCESS.includes(name)));

/** What an admin has said of it, by name; empty where the worker is left to itself. */
export function textsOf(worker: Worker): Record<string, string> {
  const said = (name: string) => {
    const now = worker.settings?.[name];
    return now?.said_by === "server" ? now.text : "";
  };
  return Object.fromEntries(settingNames(worker).map((name) => [name, said(name)]));
}

/** What is not as it was; null: left to the worker again. */
export function changesOf(before: Record<string, string>, now: Record<string, string>): Record<string, string | null> {
  const changed = Object.entries(now).filter(([name, text]) => text.trim() !== before[name]);
  return Object.fromEntries(changed.map(([name, text]) => [name, text.trim() || null]));
}

/** A setting's text in words. */
export function valueOf(name: string, text: string): string {
  return t.workers.values[`${name} ${text}`] ?? (text || t.workers.nothing);
}

/** What is out of the ordinary about it, in short: "nice 10 (set here)". */
export function unusual(worker: Worker): string[] {
  return SETTINGS.flatMap((name) => {
    const now = worker.settings?.[name];
    if (!now || now.said_by === "default" || !now.text || name === "tags") return [];
    return [t.workers.setting(t.workers.settings[name] ?? name, valueOf(name, now.text), now.said_by === "server")];
  });
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
  isInside(worker) && worker.kinds.length > 0 && worker.kinds.every((kind) => kinds.isServersOwn(kind));
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

/** Cores and memory of the machines, each counted once: those inside one server share its machine. */
export function powerOf(workers: Worker[]): { cores: number; memory: number } {
  const machines = new Map(workers.map((each) => [machineKey(each), each.metadata as Record<string, unknown>]));
  const sum = (name: string) => [...machines.values()].reduce((all, each) => all + (typeof each[name] === "number" ? each[name] : 0), 0);
  return { cores: sum("cores"), memory: sum("memory_bytes") };
}

function machineKey(worker: Worker): string {
  const host = worker.metadata["host"];
  return typeof host === "string" && host ? host : isInside(worker) ? "" : worker.id;
}

/** How many are online for each kind that somebody can do. */
export function workersByKind(workers: Worker[]): [string, number][] {
  const able = new Map<string, number>();
  for (const worker of workers) {
    for (const kind of worker.kinds) able.set(kind, (able.get(kind) ?? 0) + (isOnline(worker) ? 1 : 0));
  }
  return [...able].sort(([one, first], [other, second]) => second - first || one.localeCompare(other));
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
