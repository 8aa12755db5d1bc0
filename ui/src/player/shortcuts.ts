/** Which key does what. Pure. */
export type Command =
  | { name: "toggle" | "fullscreen" | "mute" | "captions" | "pip" | "help" | "in" | "out" }
  | { name: "skip" | "rate" | "frame" | "volume"; by: number }
  | { name: "jump"; share: number };

export interface Pressed {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
}

/** Where the key was pressed. */
export interface Place {
  /** Something that has a use for letters. */
  isTyping: boolean;
  /** A button, a link or the like, which has a use for Space. */
  isControl: boolean;
  /** The player, or nothing in particular. Elsewhere, arrows and Home scroll. */
  isPlayer: boolean;
  /** Cutting a part out: i and o set its ends. */
  isTrimming: boolean;
}

const ANYWHERE: Record<string, Command> = {
  k: { name: "toggle" },
  j: { name: "skip", by: -10 },
  l: { name: "skip", by: 10 },
  f: { name: "fullscreen" },
  m: { name: "mute" },
  c: { name: "captions" },
  i: { name: "pip" },
  "<": { name: "rate", by: -1 },
  ">": { name: "rate", by: 1 },
  ",": { name: "frame", by: -1 },
  ".": { name: "frame", by: 1 },
  "?": { name: "help" },
};
const IN_PLAYER: Record<string, Command> = {
  ArrowLeft: { name: "skip", by: -5 },
  ArrowRight: { name: "skip", by: 5 },
  ArrowUp: { name: "volume", by: 0.05 },
  ArrowDown: { name: "volume", by: -0.05 },
  Home: { name: "jump", share: 0 },
  End: { name: "jump", share: 1 },
};

export function commandFor(pressed: Pressed, place: Place): Command | undefined {
  if (place.isTyping || pressed.ctrlKey || pressed.metaKey || pressed.altKey) return undefined;
  const key = pressed.key.length === 1 ? pressed.key.toLowerCase() : pressed.key;
  if (key === " ") return place.isControl ? undefined : { name: "toggle" };
  if (place.isTrimming && key === "i") return { name: "in" };
  if (place.isTrimming && key === "o") return { name: "out" };
  if (/^[0-9]$/.test(key)) return { name: "jump", share: Number(key) / 10 };
  return ANYWHERE[key] ?? (place.isPlayer ? IN_PLAYER[key] : undefined);
}

const TYPING = "input:not([type=checkbox]):not([type=radio]):not([type=button]), textarea, select, [contenteditable]:not([contenteditable=false])";
const CONTROL = "button, a[href], summary, input, label, [role=button], [role=slider], [role=menuitem], [role=option], [role=tab]";

export function placeOf(target: EventTarget | null, player: Element, isTrimming: boolean): Place {
  const element = target instanceof Element ? target : document.body;
  return {
    // A window over the page and an open menu have the keyboard to themselves.
    isTyping: Boolean(element.closest(`${TYPING}, dialog, [role=menu], [role=listbox]`)),
    isControl: Boolean(element.closest(CONTROL)),
    isPlayer: element === document.body || element.id === "content" || player.contains(element),
    isTrimming,
  };
}

export const RATES = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2];

/** The next slower or faster of the rates there are. */
export function nextRate(rate: number, by: number): number {
  if (by > 0) return RATES.find((each) => each > rate) ?? RATES.at(-1)!;
  return RATES.findLast((each) => each < rate) ?? RATES[0]!;
}
