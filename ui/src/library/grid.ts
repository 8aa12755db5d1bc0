/** Where the cards of a grid lie, so that only those near the eye need to be there. Pure. */
export interface Shape {
  columns: number;
  cardWidth: number;
  /** From one row's top to the next one's. */
  rowHeight: number;
  gap: number;
}

export interface Window {
  /** The first item that is drawn, and the one after the last. */
  first: number;
  end: number;
  /** Where the first one's row begins. */
  offset: number;
  /** Of all rows together. */
  height: number;
}

/** Narrower than this is a phone. */
const NARROW = 560;
/** Title, date and the room around them, below the picture. */
export const TEXT_HEIGHT = 74;

export type View = "grid" | "list";
/** A row of the list: as high as a finger needs it. */
const LIST_HEIGHT = 72;

export function shape(width: number, view: View = "grid"): Shape {
  if (view === "list") return { columns: 1, cardWidth: width, gap: 0, rowHeight: LIST_HEIGHT };
  const [least, gap] = width < NARROW ? [150, 12] : [250, 20];
  const columns = Math.max(1, Math.floor((width + gap) / (least + gap)));
  const cardWidth = Math.max(1, (width - gap * (columns - 1)) / columns);
  return { columns, cardWidth, gap, rowHeight: Math.round((cardWidth * 9) / 16) + TEXT_HEIGHT + gap };
}

export function rowsOf(count: number, columns: number): number {
  return Math.ceil(count / columns);
}

/** `top` is where the eye begins, measured from the grid's first row; it may lie above or below it. */
export function around(count: number, { columns, rowHeight }: Shape, top: number, eye: number, spare = eye): Window {
  const rows = rowsOf(count, columns);
  const from = clamp(Math.floor((top - spare) / rowHeight), 0, rows);
  const to = clamp(Math.ceil((top + eye + spare) / rowHeight), from, rows);
  return {
    first: from * columns,
    end: Math.min(count, to * columns),
    offset: from * rowHeight,
    height: rows * rowHeight,
  };
}

/** Which item the arrow keys lead to; the same one at the edge. */
export function step(key: string, at: number, count: number, columns: number): number | undefined {
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: count - 1 }[key];
  if (to === undefined) return undefined;
  if (key === "ArrowDown" && to >= count) return onLastRow(at, count, columns) ? at : count - 1;
  return to < 0 || to >= count ? at : to;
}

function onLastRow(at: number, count: number, columns: number): boolean {
  return Math.floor(at / columns) === rowsOf(count, columns) - 1;
}

/** How far to scroll so that the row of an item lies between `top` and `top + eye`; 0 when it does. */
export function reveal(at: number, { columns, rowHeight, gap }: Shape, top: number, eye: number): number {
  const from = Math.floor(at / columns) * rowHeight;
  const to = from + rowHeight - gap;
  if (from < top) return from - top;
  return to > top + eye ? to - top - eye : 0;
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
