/** Who speaks: names, colours, and labels for new ones. Pure. */
import { t } from "./texts";

export const COLOURS = 8;
const LABEL = /^SPEAKER_(\d+)$/;

/** What people call them; else a number to tell them apart. */
export function nameOf(label: string, names: Readonly<Record<string, string>>): string {
  const number = LABEL.exec(label)?.[1];
  return names[label] || (number === undefined ? label : t.transcript.speaker(Number(number) + 1));
}

/** The same for as long as the order in which they are first heard is. */
export function colourOf(label: string, order: readonly string[]): string {
  const at = order.indexOf(label);
  return `var(--speaker-${(at < 0 ? order.length : at) % COLOURS})`;
}

export function nextLabel(labels: readonly string[]): string {
  const numbers = labels.map((each) => Number(LABEL.exec(each)?.[1] ?? -1));
  return `SPEAKER_${String(Math.max(-1, ...numbers) + 1).padStart(2, "0")}`;
}
