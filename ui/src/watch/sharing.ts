/** What is said of a share link, as the server takes it. Pure. */
import type { ShareTerms } from "../lib/api";

export const DAYS = [1, 7, 30] as const;
const DAY_SECONDS = 86_400;

/** When a link ends: as it is, never, in so many days, or on a date. */
export type Ending = "kept" | "never" | "date" | `${(typeof DAYS)[number]}`;

/** Null for a date that is none, or is over. `date` as a field for it has it: in the time of this place. */
export function endOf(ending: Ending, date: string, now: number): Partial<ShareTerms> | null {
  if (ending === "kept") return {};
  if (ending === "never") return { expires_at: null };
  if (ending !== "date") return { expires_in: Number(ending) * DAY_SECONDS };
  const at = Date.parse(date);
  return at > now ? { expires_at: new Date(at).toISOString() } : null;
}

/** Now, as a field for a date and time wants it. */
export function fieldOf(at: number): string {
  const local = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}

/** The address that begins at this second. */
export function linkAt(url: string, seconds: number): string {
  return seconds >= 1 ? `${url}?t=${Math.floor(seconds)}` : url;
}
