/** When something came. Formats are made once: a card is drawn in less time than one takes. */
const THIS_YEAR = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const ANY_YEAR = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", year: "numeric" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** The year is said when it is another one. */
export function day(at: string | null, now = new Date()): string {
  if (!at) return "";
  const when = new Date(at);
  return (when.getFullYear() === now.getFullYear() ? THIS_YEAR : ANY_YEAR).format(when);
}

export function exactly(at: string | null): string {
  return at ? EXACT.format(new Date(at)) : "";
}
