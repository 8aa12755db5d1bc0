/** The names that somebody has for media, and the filters they keep: read once, and again when told. */
import { api, ok, type components } from "../lib/api";
import { live } from "../lib/live.svelte";

type Schemas = components["schemas"];
export type Collection = Schemas["Collection"];
export type Tag = Schemas["TagCount"];
export type SavedFilter = Schemas["SavedFilter"];

/** So many are offered to choose from; all others are found by their names. */
const MOST = 1_000;
const PAGE = 200;
/** Many changes come together. */
const SETTLE_MS = 1_500;

interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

async function all<T>(read: (query: { limit: number; cursor?: string }) => Promise<Page<T>>): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | null | undefined;
  do {
    const page = await read({ limit: PAGE, ...(cursor ? { cursor } : {}) });
    found.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && found.length < MOST);
  return found;
}

class Labels {
  collections = $state.raw<Collection[]>([]);
  tags = $state.raw<Tag[]>([]);
  saved = $state.raw<SavedFilter[]>([]);
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Reads them, and again when media change, until the answer is called. */
  follow(): () => void {
    void this.load();
    const stops = [
      live.on(["media.created", "media.updated", "media.deleted"], () => this.soon()),
      live.onReset(() => this.soon()),
    ];
    return () => {
      clearTimeout(this.timer);
      stops.forEach((stop) => stop());
    };
  }

  private soon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.load(), SETTLE_MS);
  }

  /** What cannot be read now stays as it was. */
  async load(): Promise<void> {
    const [collections, tags, saved] = await Promise.allSettled([
      all((query) => ok(api.GET("/api/v1/collections", { params: { query } }))),
      all((query) => ok(api.GET("/api/v1/tags", { params: { query } }))),
      ok(api.GET("/api/v1/saved-filters")),
    ]);
    if (collections.status === "fulfilled") this.collections = collections.value;
    if (tags.status === "fulfilled") this.tags = tags.value;
    if (saved.status === "fulfilled") this.saved = saved.value.items;
  }

  collection(id: string): Collection | undefined {
    return this.collections.find((each) => each.id === id);
  }

  async create(name: string): Promise<Collection> {
    const made = await ok(api.POST("/api/v1/collections", { body: { name } }));
    await this.load();
    return made;
  }

  async rename(id: string, name: string): Promise<void> {
    await ok(api.PATCH("/api/v1/collections/{collection_id}", { params: { path: { collection_id: id } }, body: { name } }));
    await this.load();
  }

  async remove(id: string): Promise<void> {
    await ok(api.DELETE("/api/v1/collections/{collection_id}", { params: { path: { collection_id: id } } }));
    await this.load();
  }

  async save(name: string, filter: SavedFilter["filter"]): Promise<void> {
    await ok(api.POST("/api/v1/saved-filters", { body: { name, filter } }));
    await this.load();
  }

  async unsave(id: string): Promise<void> {
    await ok(api.DELETE("/api/v1/saved-filters/{filter_id}", { params: { path: { filter_id: id } } }));
    await this.load();
  }
}

export const labels = new Labels();
