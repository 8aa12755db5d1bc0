/** The media of the library as far as they were read, kept true by events. It outlives the page, so
that whoever comes back from watching finds it as it was left. */
import { api, ok, Problem, type Media } from "../lib/api";
import { kinds } from "../lib/kinds.svelte";
import { isProgress, type LiveEvent } from "../lib/live.svelte";
import { LiveList, type Page } from "../lib/live-list.svelte";
import { advanced } from "../lib/media.svelte";
import { compare, filterOf, fits, placed, questions, released, type Filter, type Query } from "./filters";

const PAGE = 100;
/** More changes than this at once are read as a list. */
const MANY = 20;
/** Says nothing about what a card shows. */
const isQuiet = (type: string) => type.startsWith("worker.") || kinds.ofEvent(type)?.housekeeping;

/** How far each of the questions that make up the list was read. */
interface Cursor {
  queries: QueryCursor[];
  /** Read already, but its place is known only when there is more of the others. */
  held: Media[];
}

interface QueryCursor {
  query: Query;
  /** Null behind the last page. */
  cursor: string | null | undefined;
  last?: Media;
}

export class MediaList extends LiveList<Media, Cursor> {
  filter = $state.raw<Filter>(filterOf(new URLSearchParams()));
  moreProblem = $state("");
  /** Where the page was left. */
  scrolledTo = 0;

  private owner = "";
  private stop = () => {};

  constructor() {
    super(PAGE);
  }

  /** Shows this user's media; what was there of the same stays. */
  open(owner: string, filter: Filter): void {
    const isSameOwner = owner === this.owner;
    const isSame = isSameOwner && JSON.stringify(filter) === JSON.stringify(this.filter);
    if (isSame && (this.isLoaded || !this.problem)) return;
    if (!isSameOwner) this.stop();
    this.clear();
    this.owner = owner;
    this.filter = filter;
    this.scrolledTo = 0;
    if (isSameOwner) void this.load();
    else this.stop = this.start();
  }

  protected override async fetchPage(cursor: Cursor | null, limit: number): Promise<Page<Media, Cursor>> {
    const before = cursor?.queries ?? questions(this.filter).map((query): QueryCursor => ({ query, cursor: undefined }));
    const order = compare(this.filter.sort);
    const answers = await Promise.all(before.map(async (part) => (isOpen(part) ? ask(part, limit) : { part, items: [] })));
    const queries = answers.map((each) => each.part);
    const pool = [...(cursor?.held ?? []), ...answers.flatMap((each) => each.items)];
    const lasts = queries.filter(isOpen).flatMap((part) => part.last ?? []);
    const [items, held] = queries.length === 1 ? [pool, []] : released(pool, lasts, order);
    return { items, next: queries.some(isOpen) ? { queries, held } : null };
  }

  protected override apply(page: Page<Media, Cursor>): void {
    super.apply(page);
    this.moreProblem = "";
  }

  protected override append(page: Page<Media, Cursor>): void {
    super.append(page);
    this.moreProblem = "";
  }

  protected override onMoreError(error: unknown): void {
    this.moreProblem = this.sentence(error);
  }

  protected override onEvent(event: LiveEvent): void {
    const id = event.media_id;
    if (!id || isQuiet(event.type)) return;
    if (event.type === "media.deleted") return this.remove(id);
    const at = this.items.findIndex((each) => each.id === id);
    const next = at < 0 ? undefined : advanced(this.items[at]!, event);
    if (next) this.items = this.items.with(at, next);
    else if (at >= 0 || !isProgress(event)) this.refresh(id);
  }

  protected override async catchUp(ids: string[]): Promise<void> {
    if (ids.length > MANY) return this.load();
    await Promise.all(ids.map((id) => this.readOne(id)));
  }

  private async readOne(id: string): Promise<void> {
    const counts = this.stillCounts();
    try {
      const item = await ok(api.GET("/api/v1/media/{media_id}", { params: { path: { media_id: id } } }));
      if (counts()) this.put(item);
    } catch (error) {
      if (!(error instanceof Problem && error.status === 404)) throw error;
      this.remove(id);
    }
  }

  put(item: Media): void {
    if (!fits(item, this.filter)) return this.remove(item.id);
    this.items = placed(this.items, item, compare(this.filter.sort), this.hasMore);
  }

  protected override remove(id: string): void {
    super.remove(id);
    // The cursor stays the same one: a page that is under way still follows it.
    if (this.cursor) this.cursor.held = this.cursor.held.filter((each) => each.id !== id);
  }
}

function isOpen(part: QueryCursor): boolean {
  return part.cursor !== null;
}

async function ask(part: QueryCursor, limit: number): Promise<{ part: QueryCursor; items: Media[] }> {
  const query = { ...part.query, limit, ...(part.cursor ? { cursor: part.cursor } : {}) };
  const page = await ok(api.GET("/api/v1/media", { params: { query } }));
  const last = page.items.at(-1) ?? part.last;
  return { part: { query: part.query, cursor: page.next_cursor ?? null, ...(last ? { last } : {}) }, items: page.items };
}

export const mediaList = new MediaList();
