/** Looks for words while they are typed. */
import { SvelteMap } from "svelte/reactivity";
import { api, ok, sentenceOf, type Media, type Moment } from "../lib/api";
import { mediaList } from "./media-list.svelte";
import { grouped } from "./moments";

const LIMIT = 50;
const LONGEST = 300;

export class Searching {
  /** What the results shown are for. */
  query = $state("");
  state = $state<"idle" | "searching" | "there" | "failed">("idle");
  problem = $state("");
  /** What was looked for instead, when nothing says `query`. */
  corrected = $state<string | null>(null);
  hasMore = $state(false);
  private moments = $state.raw<Moment[]>([]);
  private cursor: string | null = null;
  private abort: AbortController | undefined;
  /** What was found of media that the library has not read. */
  private others = new SvelteMap<string, Media | null>();

  readonly found = $derived(grouped(this.moments));

  async run(words: string): Promise<void> {
    this.abort?.abort();
    if (!words.trim()) {
      this.state = "idle";
      this.query = "";
      this.moments = [];
      this.corrected = null;
      return;
    }
    this.cursor = null;
    await this.ask(words, []);
  }

  async more(): Promise<void> {
    if (this.hasMore && this.state === "there") await this.ask(this.query, this.moments);
  }

  private async ask(words: string, before: Moment[]): Promise<void> {
    const abort = (this.abort = new AbortController());
    this.state = "searching";
    try {
      const query = { q: words.slice(0, LONGEST), limit: LIMIT, ...(this.cursor ? { cursor: this.cursor } : {}) };
      const page = await ok(api.GET("/api/v1/search", { params: { query }, signal: abort.signal }));
      if (this.abort !== abort) return;
      this.moments = [...before, ...(page.items as Moment[])];
      this.cursor = page.next_cursor ?? null;
      this.hasMore = this.cursor !== null;
      this.corrected = page.corrected ?? null;
      this.query = words;
      this.state = "there";
      this.learn(page.items.map((each) => each.media_id));
    } catch (error) {
      if (abort.signal.aborted) return;
      this.query = words;
      this.problem = sentenceOf(error);
      this.state = "failed";
    }
  }

  /** For its picture and length; nothing until they are known. */
  media(id: string): Media | undefined {
    return mediaList.items.find((each) => each.id === id) ?? this.others.get(id) ?? undefined;
  }

  private learn(ids: string[]): void {
    const known = new Set(mediaList.items.map((each) => each.id));
    for (const id of new Set(ids)) {
      if (known.has(id) || this.others.has(id)) continue;
      this.others.set(id, null);
      ok(api.GET("/api/v1/media/{media_id}", { params: { path: { media_id: id } } })).then(
        (item) => this.others.set(id, item),
        // Without its picture it can still be found and opened.
        () => this.others.delete(id),
      );
    }
  }
}
