/** Times as a field of a form has them: on this device's clock. Pure. */

/** `2024-07-01T18:30`; empty for none. */
export function localOf(at: string | null): string {
  const when = at ? new Date(at) : null;
  if (!when || Number.isNaN(when.getTime())) return "";
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${String(when.getFullYear()).padStart(4, "0")}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  return `${day}T${two(when.getHours())}:${two(when.getMinutes())}`;
}

/** As the server takes it; null for nothing, and for what is no time. */
export function momentOf(local: string): string | null {
  const when = local ? new Date(local) : null;
  return when && !Number.isNaN(when.getTime()) ? when.toISOString() : null;
}
