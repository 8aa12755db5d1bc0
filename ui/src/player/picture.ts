/** How a picture lies in a card, and what is drawn of sound that has none. */
import { peaksOf } from "./waveform";

/** `filled`: its edges are cut a little; `whole`: all of it is seen; `wave`: a plain drawing of the sound. */
export type Fit = "filled" | "whole" | "wave";

/** A card is 16:9; of what is narrower than this, heads would be cut off. */
const NARROW = 1.3;
/** Cinema films still fill a card. */
const WIDE = 2.45;
/** No cover is so flat: this is the server's drawing of the sound, and we have a better one. */
const FLAT = 3;

export function fitOf(width: number, height: number, isSound: boolean): Fit {
  const ratio = height ? width / height : 1;
  if (isSound && ratio >= FLAT) return "wave";
  return ratio < NARROW || ratio > WIDE ? "whole" : "filled";
}

const MOST_KNOWN = 200;
const known = new Map<string, Promise<number[]>>();

/** Read once; none where it cannot be had. */
export function peaksAt(url: string): Promise<number[]> {
  const before = known.get(url);
  if (before) return before;
  const reading = fetch(url)
    .then((answer) => (answer.ok ? answer.text() : ""))
    .then(peaksOf)
    .catch(() => {
      known.delete(url);
      return [];
    });
  if (known.size >= MOST_KNOWN) known.delete(known.keys().next().value!);
  known.set(url, reading);
  return reading;
}
