/** What the player remembers on this device. It goes without, where nothing may be stored. */
type Store = Pick<Storage, "getItem" | "setItem">;

const NOWHERE: Store = { getItem: () => null, setItem: () => {} };

/** Even to ask for it may be forbidden: in a frame on another site. */
export function storeOf(kind: "localStorage" | "sessionStorage"): Store {
  try {
    return globalThis[kind] ?? NOWHERE;
  } catch {
    return NOWHERE;
  }
}

export interface Preferences {
  volume: number;
  muted: boolean;
  rate: number;
  captions: boolean;
  captionSize: "small" | "medium" | "large";
  /** The lines of the wanted picture; 0 leaves it to the connection. */
  quality: number;
}

const DEFAULTS: Preferences = { volume: 1, muted: false, rate: 1, captions: false, captionSize: "medium", quality: 0 };
const PREFERENCES = "rushes.player";
const POSITIONS = "rushes.positions";
const KEPT_POSITIONS = 300;
/** Nobody needs to be brought back to the first seconds, or to the last. */
const FIRST_SECONDS = 5;
const LAST_SECONDS = 10;
const LAST_SHARE = 0.05;

export function readPreferences(store: Store): Preferences {
  const said = read<Partial<Preferences>>(store, PREFERENCES) ?? {};
  const number = (name: "volume" | "rate" | "quality", low: number, high: number) => {
    const value = said[name];
    return typeof value === "number" && value >= low && value <= high ? value : DEFAULTS[name];
  };
  return {
    volume: number("volume", 0, 1),
    rate: number("rate", 0.25, 4),
    quality: number("quality", 0, 10_000),
    muted: said.muted === true,
    captions: said.captions === true,
    captionSize: said.captionSize === "small" || said.captionSize === "large" ? said.captionSize : "medium",
  };
}

export function keepPreferences(store: Store, preferences: Preferences): void {
  write(store, PREFERENCES, preferences);
}

type Positions = [id: string, seconds: number][];

export function positionOf(store: Store, id: string): number | undefined {
  return positions(store).find(([each]) => each === id)?.[1];
}

export function keepPosition(store: Store, id: string, seconds: number, duration: number): void {
  const others = positions(store).filter(([each]) => each !== id);
  const worth = isWorthKeeping(seconds, duration);
  write(store, POSITIONS, worth ? [[id, Math.round(seconds * 10) / 10], ...others].slice(0, KEPT_POSITIONS) : others);
}

export function isWorthKeeping(seconds: number, duration: number): boolean {
  const end = Number.isFinite(duration) ? duration - Math.max(LAST_SECONDS, duration * LAST_SHARE) : Infinity;
  return seconds >= FIRST_SECONDS && seconds < end;
}

function positions(store: Store): Positions {
  const found = read<unknown>(store, POSITIONS);
  if (!Array.isArray(found)) return [];
  return found.filter((each): each is Positions[number] => Array.isArray(each) && typeof each[1] === "number");
}

function read<T>(store: Store, name: string): T | undefined {
  try {
    return JSON.parse(store.getItem(name) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}

function write(store: Store, name: string, value: unknown): void {
  try {
    store.setItem(name, JSON.stringify(value));
  } catch {
    // Private windows and full discs: it counts until the page is closed.
  }
}

/** Seconds from an address: "83.5", "1:23", "1h2m3s". */
export function momentOf(said: string | null): number | undefined {
  if (!said) return undefined;
  if (/^\d+(\.\d+)?$/.test(said)) return Number(said);
  if (/^\d+(:\d{1,2}){1,2}(\.\d+)?$/.test(said)) return said.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
  const [all, hours, minutes, seconds] = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(said) ?? [];
  return all ? Number(hours ?? 0) * 3600 + Number(minutes ?? 0) * 60 + Number(seconds ?? 0) : undefined;
}
