/** The media of the library as far as they were read, kept true by events. It outlives the page, so
that whoever comes back from watching finds it as it was left. */
import { api, ok, Problem, sentenceOf, type Media } from "../lib/api";
import { live, type LiveEvent } from "../lib/live.svelte";
import { advanced, Refresher } from "../lib/media.svelte";
import { compare, filterOf, fits, placed, questions, released, type Filter, type Query } from "./filters";

const PAGE = 100;
const LARGE_PAGE = 200;
/** More changes than this at once are read as a list. */
const MANY = 20;
/** Says nothing about what a card shows. */
const QUIET = /^(span|webhook|purge|worker)\.|\.passage$/;

/** One of the questions that make up the list, and how far its answer was read. */
interface Lane {
  query: Query;
  cursor: string | null | undefined;
  last?: Media;
}

export class Shelf {
  items = $state.raw<Media[]>([]);
  filter = $state.raw<Filter>(filterOf(new URLSearchParams()));
  state = $state<"empty" | "loading" | "there" | "failed">("empty");
  problem = $state("");
  /** There is more than what was read. */
  goesOn = $state(false);
  loadingMore = $state(false);
  moreProblem = $state("");
  /** Where the page was left. */
  scrolledTo = 0;

  private owner = "";
  private lanes: Lane[] = [];
  private held: Media[] = [];
  /** Counts the lists that were begun: answers to older ones are dropped. */
  private turn = 0;
  private underWay = 0;
  private touched = new Set<string>();
  private refresher = new Refresher((ids) => this.read(ids));
  private stops: (() => void)[] = [];

  /** Shows this user's media; what was there of the same stays. */
  open(owner: string, filter: Filter): void {
    const same = owner === this.owner && JSON.stringify(filter) === JSON.stringify(this.filter);
    if (owner !== this.owner) this.listen();
    this.owner = owner;
    if (same && this.state !== "empty" && this.state !== "failed") return;
    this.filter = filter;
    this.scrolledTo = 0;
    void this.load();
  }

  /** From the beginning. */
  async load(): Promise<void> {
    this.state = "loading";
    this.items = [];
    await this.begin(PAGE, 0);
  }

  /** Everything that was read, anew, without a jump. */
  async reload(): Promise<void> {
    if (this.state === "there") await this.begin(LARGE_PAGE, this.items.length);
    else if (this.state === "failed") await this.load();
  }

  private async begin(page: number, least: number): Promise<void> {
    const turn = ++this.turn;
    const lanes: Lane[] = questions(this.filter).map((query) => ({ query, cursor: undefined }));
    try {
      let items: Media[] = [];
      let held: Media[] = [];
      do {
        const [fresh, later] = await this.next(lanes, items, held, page);
        items = [...items, ...fresh];
        held = later;
      } while (items.length < least && lanes.some(goesOn));
      if (turn !== this.turn) return;
      this.lanes = lanes;
      this.held = held;
      this.items = items;
      this.goesOn = lanes.some(goesOn);
      this.state = "there";
      this.moreProblem = "";
    } catch (error) {
      if (turn !== this.turn || (this.state === "there" && error instanceof Problem && error.isOffline)) return;
      this.problem = sentenceOf(error);
      this.state = "failed";
    }
  }

  async more(): Promise<void> {
    if (this.loadingMore || !this.goesOn || this.state !== "there") return;
    const turn = this.turn;
    this.loadingMore = true;
    try {
      const [fresh, later] = await this.next(this.lanes, this.items, this.held, PAGE);
      if (turn !== this.turn) return;
      // What came by itself while the page was under way is newer than the page.
      const known = new Set(this.items.map((each) => each.id));
      this.items = [...this.items, ...fresh.filter((each) => !known.has(each.id))];
      this.held = later;
      this.goesOn = this.lanes.some(goesOn);
      this.moreProblem = "";
    } catch (error) {
      if (turn === this.turn) this.moreProblem = sentenceOf(error);
    } finally {
      this.loadingMore = false;
    }
  }

  /** What follows, and what was read but has to wait for more. */
  private async next(lanes: Lane[], items: Media[], held: Media[], page: number): Promise<[Media[], Media[]]> {
    const open = lanes.filter(goesOn);
    const answers = await this.reading(() => Promise.all(open.map((lane) => ask(lane, page))));
    for (const [at, answer] of answers.entries()) {
      open[at]!.cursor = answer.next_cursor ?? null;
      open[at]!.last = answer.items.at(-1) ?? open[at]!.last;
    }
    const fresh = answers.flatMap((each) => each.items);
    const known = new Set(items.map((each) => each.id));
    const pool = [...held, ...fresh].filter((each) => !known.has(each.id));
    if (lanes.length === 1) return [pool, []];
    const lasts = lanes.filter(goesOn).flatMap((lane) => lane.last ?? []);
    return released(pool, lasts, compare(this.filter.sort));
  }

  /** What changes while a list is under way may be older in the list than it is: it is read again. */
  private async reading<T>(work: () => Promise<T>): Promise<T> {
    this.underWay += 1;
    try {
      return await work();
    } finally {
      this.underWay -= 1;
      if (!this.underWay) {
        this.touched.forEach((id) => this.refresher.ask(id));
        this.touched.clear();
      }
    }
  }

  // What happens meanwhile

  private listen(): void {
    this.stops.forEach((stop) => stop());
    this.state = "empty";
    this.items = [];
    this.stops = [live.on(["*"], (event) => this.hear(event)), live.onReset(() => void this.reload())];
  }

  private hear(event: LiveEvent): void {
    const id = event.media_id;
    if (!id || QUIET.test(event.type)) return;
    if (this.underWay && !event.type.endsWith(".progress")) this.touched.add(id);
    if (event.type === "media.deleted") return this.remove(id);
    const at = this.items.findIndex((each) => each.id === id);
    const next = at < 0 ? undefined : advanced(this.items[at]!, event);
    if (next) this.items = this.items.with(at, next);
    else if (at >= 0 || !event.type.endsWith(".progress")) this.refresher.ask(id);
  }

  /** Has changed, we believe. */
  refresh(id: string): void {
    this.refresher.ask(id);
  }

  private async read(ids: string[]): Promise<void> {
    if (this.state !== "there") return;
    if (ids.length > MANY) return this.reload();
    await Promise.all(ids.map((id) => this.readOne(id)));
  }

  private async readOne(id: string): Promise<void> {
    const turn = this.turn;
    try {
      const item = await ok(api.GET("/api/v1/media/{media_id}", { params: { path: { media_id: id } } }));
      if (turn === this.turn) this.put(item);
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.remove(id);
    }
  }

  put(item: Media): void {
    if (!fits(item, this.filter)) return this.remove(item.id);
    this.items = placed(this.items, item, compare(this.filter.sort), this.goesOn);
  }

  private remove(id: string): void {
    if (this.items.some((each) => each.id === id)) this.items = this.items.filter((each) => each.id !== id);
    this.held = this.held.filter((each) => each.id !== id);
  }
}

function goesOn(lane: Lane): boolean {
  return lane.cursor !== null;
}

function ask(lane: Lane, limit: number) {
  const query = { ...lane.query, limit, ...(lane.cursor ? { cursor: lane.cursor } : {}) };
  return ok(api.GET("/api/v1/media", { params: { query } }));
}

export const shelf = new Shelf();
