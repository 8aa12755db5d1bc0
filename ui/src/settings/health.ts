/** What the server's own checks mean, and what to do about it. Pure. */
import type { components } from "../lib/schema";
import { bytes } from "../lib/format";
import { t } from "./texts";

type Schemas = components["schemas"];

export interface Answers {
  ready: Schemas["Ready"];
  health: Schemas["Health"];
  details: Schemas["ApiHealth"];
  /** Below this, uploads are refused. */
  minFreeBytes: number;
}

export interface Check {
  id: "server" | "database" | "storage" | "workers" | "queue" | "redis";
  tone: "good" | "wait" | "bad" | "plain";
  text: string;
  todo?: string;
  href?: string;
}

export function checksOf(answers: Answers): Check[] {
  return [server(answers), database(answers), storage(answers), workers(answers), queue(answers), redis(answers)];
}

/** Whether a person is needed. */
export function isWell(checks: readonly Check[]): boolean {
  return checks.every((each) => each.tone === "good" || each.tone === "plain");
}

function server({ ready }: Answers): Check {
  const { accepting, leaving, leavingTodo, unswept, unsweptTodo } = t.settings.health;
  if (!ready.sweep || !ready.events || !ready.threads) return { id: "server", tone: "bad", text: unswept, todo: unsweptTodo };
  return ready.accepting
    ? { id: "server", tone: "good", text: accepting }
    : { id: "server", tone: "wait", text: leaving, todo: leavingTodo };
}

function database({ details }: Answers): Check {
  const words = t.settings.health;
  const kind = words.kinds[details.database.kind] ?? details.database.kind;
  return details.database.ok
    ? { id: "database", tone: "good", text: words.databaseWell(kind) }
    : { id: "database", tone: "bad", text: `${kind}: ${words.databaseBad}`, todo: words.databaseTodo };
}

function storage({ details, minFreeBytes }: Answers): Check {
  const words = t.settings.health;
  const { ok, free_bytes: free } = details.storage;
  if (!ok) return { id: "storage", tone: "bad", text: words.storageBad, todo: words.storageTodo };
  if (free === null) return { id: "storage", tone: "good", text: words.anySize };
  const text = words.free(bytes(free));
  if (minFreeBytes && free <= minFreeBytes) return { id: "storage", tone: "bad", text, todo: words.spaceOut };
  if (minFreeBytes && free <= 3 * minFreeBytes) {
    return { id: "storage", tone: "wait", text, todo: words.spaceLow(bytes(minFreeBytes)) };
  }
  return { id: "storage", tone: "good", text };
}

function workers({ details }: Answers): Check {
  const words = t.settings.health;
  const href = "/workers";
  if (!details.processing) return { id: "workers", tone: "plain", text: words.unknown };
  const count = (status: string) => details.processing?.workers[status] ?? 0;
  const online = count("idle") + count("busy");
  if (!online) return { id: "workers", tone: "bad", text: words.noWorkers, todo: words.noWorkersTodo, href };
  const away = count("offline") ? ` ${words.offline(count("offline"))}` : "";
  return { id: "workers", tone: "good", text: words.working(online, count("busy")) + away, href };
}

function queue({ details }: Answers): Check {
  const words = t.settings.health;
  const jobs = details.processing?.jobs;
  if (!jobs) return { id: "queue", tone: "plain", text: words.unknown };
  const waiting = (jobs["blocked"] ?? 0) + (jobs["queued"] ?? 0);
  const failed = jobs["failed"] ? ` ${words.failed(jobs["failed"])}` : "";
  return { id: "queue", tone: "plain", text: words.waiting(waiting, jobs["processing"] ?? 0) + failed, href: "/queue" };
}

function redis({ health }: Answers): Check {
  const words = t.settings.health;
  if (health.redis === null || health.redis === undefined) return { id: "redis", tone: "plain", text: words.redisUnused };
  return health.redis
    ? { id: "redis", tone: "good", text: words.redisWell }
    : { id: "redis", tone: "wait", text: words.redisBad, todo: words.redisTodo };
}
