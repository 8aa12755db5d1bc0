/** What to do about a request of an upload that went wrong. Pure. */
import { problemOf } from "../lib/api";

const GROWING_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000];
const LONGEST_MS = 30_000;
/** Days of waiting: a recording must not be lost because the night was long. */
export const RETRY_DELAYS = Array.from({ length: 20_000 }, (_, at) => GROWING_MS[at] ?? LONGEST_MS);

const PASSING = [0, 408, 409, 423, 425, 429];
const DISK_FULL = 507;

export type Verdict = "again" | "signed-out" | "stop";

/** `status` 0: nothing answered. */
export function verdict(status: number): Verdict {
  if (status === 401) return "signed-out";
  if (status === DISK_FULL) return "stop";
  return PASSING.includes(status) || status >= 500 ? "again" : "stop";
}

/** Whether an answer about where an upload stands can be believed: all else means to ask again, not
to begin anew. */
export function settles(status: number): boolean {
  return (status >= 200 && status < 300) || [404, 410, 423].includes(status);
}

/** The server's words as a sentence. */
export function sentence(status: number, body: string): string {
  let said: unknown;
  try {
    said = JSON.parse(body);
  } catch {
    said = undefined;
  }
  const words = problemOf(status, said).message;
  const whole = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

/** Thrown into the middle of a request, so that the upload neither goes on nor begins anew. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly body: string,
  ) {
    super(`refused with ${status}`);
  }
}
