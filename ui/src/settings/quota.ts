/** Somebody's space, as a number of gigabytes that people type. Pure. */
const GIGABYTE = 1_000_000_000;
const MOST_BYTES = 2 ** 53;

/** Null means what the server allows everybody; undefined that it is no number. */
export function bytesOf(gigabytes: string): number | null | undefined {
  const text = gigabytes.trim().replace(",", ".");
  if (!text) return null;
  if (!/^\d+(\.\d+)?$/.test(text)) return undefined;
  const bytes = Math.round(Number(text) * GIGABYTE);
  return bytes <= MOST_BYTES ? bytes : undefined;
}

export function gigabytesOf(bytes: number | null): string {
  return bytes === null ? "" : String(bytes / GIGABYTE);
}
