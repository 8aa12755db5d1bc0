/** What a share link shows. Strangers hear no events, so it is asked for again while it changes. */
import { api, ok, Problem, sentenceOf, type SharedMedia } from "../lib/api";
import { storeOf } from "../player/memory";

const ASK_AGAIN_MS = 5_000;
const ASK_RARELY_MS = 60_000;
const VISIT = "rushes.visit";

export class SharedItem {
  item = $state.raw<SharedMedia | null>(null);
  /** What keeps it from being shown: it is gone, its time is over, or it wants a password. */
  closed = $state<"dead" | "expired" | "locked" | null>(null);
  problem = $state("");
  /** Counts the answers that may have brought something new. */
  looks = $state(0);

  private isCounted = false;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly token: string) {}

  private get params() {
    return { path: { token: this.token } };
  }

  start(): () => void {
    let isStopped = false;
    const ask = async () => {
      if (!document.hidden) await this.load();
      if (isStopped || this.closed === "dead" || this.closed === "expired") return;
      const isCalm = this.closed === "locked" || this.item?.status === "ready";
      this.timer = setTimeout(() => void ask(), isCalm ? ASK_RARELY_MS : ASK_AGAIN_MS);
    };
    void ask();
    return () => {
      isStopped = true;
      clearTimeout(this.timer);
    };
  }

  async load(): Promise<void> {
    try {
      const found = await ok(api.GET("/s/{token}/media", { params: this.params }));
      if (JSON.stringify(found) !== JSON.stringify(this.item)) this.item = found;
      this.looks += 1;
      this.closed = null;
      this.problem = "";
    } catch (error) {
      const why = error instanceof Problem ? closedBy(error) : null;
      if (why) {
        this.closed = why;
        this.item = null;
      } else this.problem = sentenceOf(error);
    }
  }

  /** Throws a Problem when the password is wrong, or was too often. */
  async unlock(password: string): Promise<void> {
    await ok(api.POST("/s/{token}/unlock", { params: this.params, body: { password } }));
    await this.load();
  }

  /** Somebody plays it. Counted once, however often the page is loaded again in this tab. */
  watched(): void {
    if (this.isCounted) return;
    this.isCounted = true;
    // Nobody misses a view that could not be counted.
    void api.POST("/s/{token}/views", { params: this.params, body: { visit: visitOf(storeOf("sessionStorage")) } }).catch(() => {});
  }
}

export function closedBy(problem: Problem): "dead" | "expired" | "locked" | null {
  if (problem.code === "link_locked") return "locked";
  if (problem.status === 410) return "expired";
  return problem.status === 404 ? "dead" : null;
}

/** The same for as long as the tab is open. */
export function visitOf(store: Pick<Storage, "getItem" | "setItem">): string {
  const known = store.getItem(VISIT);
  if (known) return known;
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const made = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  try {
    store.setItem(VISIT, made);
  } catch {
    // A full disc: it counts until the page is loaded again.
  }
  return made;
}
