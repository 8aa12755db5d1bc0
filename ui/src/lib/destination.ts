/** Where to go after signing in: a path of ours, whatever the address asked for. Pure. */
export function destination(to: string | null, origin: string): string {
  // Browsers read "/\" as "//", and leave tabs and line breaks out of an address.
  if (!to || !to.startsWith("/") || /^\/[/\\]/.test(to) || /[\u0000-\u001f]/.test(to)) return "/";
  let url: URL;
  try {
    url = new URL(to, origin);
  } catch {
    return "/";
  }
  if (url.origin !== origin || url.pathname === "/sign-in" || url.pathname.startsWith("//")) return "/";
  return url.pathname + url.search + url.hash;
}
