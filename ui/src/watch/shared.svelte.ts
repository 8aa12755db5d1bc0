/** What a share link shows. Strangers hear no events, so it is asked for again while it changes. */
import { api, ok, Problem, sentenceOf, type SharedMedia } from "../lib/api";

const ASK_AGAIN_MS = 5_000;
const ASK_RARELY_MS = 60_000;

export class SharedItem {
  item = $state.raw<SharedMedia | null>(null);
  isDead = $state(false);
  problem = $state("");
  /** Counts the answers that may have brought something new. */
  looks = $state(0);

  constructor(readonly token: string) {}

  start(): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isStopped = false;
    const ask = async () => {
      if (!document.hidden) await this.load();
      if (isStopped || this.isDead) return;
      timer = setTimeout(() => void ask(), this.item?.status === "ready" ? ASK_RARELY_MS : ASK_AGAIN_MS);
    };
    void ask();
    return () => {
      isStopped = true;
      clearTimeout(timer);
    };
  }

  async load(): Promise<void> {
    try {
      const found = await ok(api.GET("/s/{token}/media", { params: { path: { token: this.token } } }));
      if (JSON.stringify(found) !== JSON.stringify(this.item)) this.item = found;
      this.looks += 1;
      this.problem = "";
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.isDead = true;
      else this.problem = sentenceOf(error);
    }
  }
}
