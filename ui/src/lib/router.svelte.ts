/** Which page is shown. Addresses are plain paths, so that any of them can be kept and sent. */
export const routes = {
  library: "/",
  watch: "/watch/:id",
  trash: "/trash",
  queue: "/queue",
  job: "/queue/:id",
  workers: "/workers",
  settings: "/settings",
  section: "/settings/:section",
  signIn: "/sign-in",
  welcome: "/welcome",
  docs: "/docs",
  share: "/s/:token",
} as const;

export type RouteName = keyof typeof routes;

export interface Route {
  name: RouteName | "missing";
  params: Record<string, string>;
  query: URLSearchParams;
  path: string;
}

export function match(path: string, search: string): Route {
  const query = new URLSearchParams(search);
  for (const [name, pattern] of Object.entries(routes)) {
    const params = fits(pattern, path);
    if (params) return { name: name as RouteName, params, query, path };
  }
  return { name: "missing", params: {}, query, path };
}

function fits(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean);
  if (wanted.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const value = given[at]!;
    if (part.startsWith(":")) params[part.slice(1)] = plain(value);
    else if (part !== value) return undefined;
  }
  return params;
}

function plain(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

class Router {
  current = $state.raw<Route>({ name: "missing", params: {}, query: new URLSearchParams(), path: "/" });
  /** Asked when somebody goes back or forward; true keeps the page. */
  beforeBack: (() => boolean) | undefined;

  start(): void {
    this.read();
    window.addEventListener("popstate", () => this.beforeBack?.() || this.read());
    document.addEventListener("click", (event) => this.clicked(event));
  }

  /** Shows `to`; `replace` leaves no way back to where we were. */
  go(to: string, { replace = false, keepScroll = false } = {}): void {
    if (replace) history.replaceState(null, "", to);
    else history.pushState(null, "", to);
    const before = this.current.path;
    this.read();
    if (!keepScroll && before !== this.current.path) window.scrollTo(0, 0);
  }

  /** The same page with other words behind the question mark. Empty values are left out. */
  setQuery(values: Record<string, string | null | undefined>, { replace = true } = {}): void {
    const query = new URLSearchParams(this.current.query);
    for (const [name, value] of Object.entries(values)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    const tail = query.toString();
    this.go(this.current.path + (tail ? `?${tail}` : ""), { replace, keepScroll: true });
  }

  private read(): void {
    this.current = match(location.pathname, location.search);
  }

  private clicked(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (match(link.pathname, link.search).name === "missing") return;
    event.preventDefault();
    this.go(link.pathname + link.search + link.hash);
  }
}

export const router = new Router();
