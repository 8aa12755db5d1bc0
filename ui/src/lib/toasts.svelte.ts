/** Short messages at the edge of the page. */
import { sentenceOf } from "./api";

export interface Toast {
  id: number;
  text: string;
  tone: "plain" | "good" | "bad";
  action?: { label: string; run: () => void };
}

const SHOWN_MS = 6_000;

class Toasts {
  items = $state<Toast[]>([]);
  private next = 1;

  /** Returns how to take it away again. */
  show(text: string, { tone = "plain", action, ms = SHOWN_MS }: Partial<Omit<Toast, "id" | "text">> & { ms?: number } = {}): () => void {
    const id = this.next++;
    this.items.push({ id, text, tone, ...(action ? { action } : {}) });
    const close = () => this.close(id);
    setTimeout(close, ms);
    return close;
  }

  good(text: string): void {
    this.show(text, { tone: "good" });
  }

  /** Whatever was thrown, as a sentence. */
  bad(error: unknown): void {
    this.show(sentenceOf(error), { tone: "bad", ms: 10_000 });
  }

  close(id: number): void {
    this.items = this.items.filter((each) => each.id !== id);
  }
}

export const toasts = new Toasts();

/** Runs it and says so when it did not work. Returns whether it did. */
export async function attempt(work: () => Promise<unknown>, said?: string): Promise<boolean> {
  try {
    await work();
    if (said) toasts.good(said);
    return true;
  } catch (error) {
    toasts.bad(error);
    return false;
  }
}
