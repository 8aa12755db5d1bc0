/** Numbers and times as people read them. Pure. */
import { formatNumber, locale } from "./language";
import { t } from "./texts";

/** 75 → "1:15", 3675 → "1:01:15". */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds || 0));
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor((whole % 3600) / 60);
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** "the file is empty" → "The file is empty" */
export function capital(words: string): string {
  return words && words[0]!.toUpperCase() + words.slice(1);
}

/** A length of time in words: "40 s", "3 min", "2 h 5 min", "4 d". */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds || 0));
  if (whole < 60) return t.units.seconds(whole);
  const minutes = Math.round(whole / 60);
  if (minutes < 60) return t.units.minutes(minutes);
  if (minutes < 1440) return t.units.hours(Math.floor(minutes / 60), minutes % 60);
  return t.units.days(Math.round(whole / 86_400));
}

export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = Math.max(0, count);
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${formatNumber(value, digits)} ${units[unit]}`;
}

/** 0.4249 → "42 %". Never 100 % before it is done. */
export function percent(share: number): string {
  const whole = share >= 1 ? 100 : Math.min(99, Math.floor(Math.max(0, share) * 100));
  return `${whole} %`;
}

export function speed(times: number): string {
  return `${formatNumber(times, times >= 10 ? 0 : 1)}×`;
}

/** "3 min ago", from an RFC 3339 time. */
export function ago(at: string | null | undefined, now: number): string {
  if (!at) return t.units.never;
  const seconds = (now - Date.parse(at)) / 1000;
  return seconds < 5 ? t.units.justNow : t.units.ago(span(seconds));
}

type At = string | number | null | undefined;

/** All dates and times of the pages are written by these, on one clock: the reader's own, of 12 or of
24 hours as their language has it. A format is made once: a card is drawn in less time than that takes. */
function written(options: Intl.DateTimeFormatOptions): (at: At) => string {
  const format = new Intl.DateTimeFormat(locale, options);
  return (at) => {
    const when = new Date(at ?? "");
    return Number.isNaN(when.getTime()) ? "" : format.format(when);
  };
}

export const date = written({ year: "numeric", month: "short", day: "numeric" });
export const dateTime = written({ dateStyle: "medium", timeStyle: "short" });
export const exactly = written({ dateStyle: "medium", timeStyle: "medium" });
export const time = written({ timeStyle: "short" });
export const exactTime = written({ timeStyle: "medium" });
export const weekdayTime = written({ weekday: "short", hour: "numeric", minute: "2-digit" });
const dayOfThisYear = written({ month: "short", day: "numeric" });

/** The year is said when it is another one. */
export function day(at: string | null | undefined, now = new Date()): string {
  return (at && new Date(at).getFullYear() === now.getFullYear() ? dayOfThisYear : date)(at);
}

export function count(value: number): string {
  return formatNumber(value);
}
