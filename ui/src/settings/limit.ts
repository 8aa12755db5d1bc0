/** What a limit means, in words. Pure. */
import type { components } from "../lib/schema";
import { t } from "./texts";

export type Limit = components["schemas"]["Limit"];

export function meaningOf(limit: Limit): string {
  const words = t.settings.limits;
  const [family = "", name = ""] = limit.key.split(/:(.*)/s);
  if (limit.key === "user:*") return words.eachUser;
  if (family === "user") return words.ofUser(limit.name ?? name);
  if (family === "kind") return name === "*" ? words.eachKind : words.ofKind(name);
  if (family === "worker") return name === "*" ? words.eachWorker : words.ofWorker(name);
  return name === "*" ? words.each(family) : words.ofKey(limit.key);
}

/** As the server keeps it, of what somebody typed. */
export function keyOf(typed: string): string {
  return typed.trim().toLowerCase().replace(/\s*:\s*/, ":");
}
