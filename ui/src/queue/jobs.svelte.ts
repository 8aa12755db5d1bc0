/** The list of jobs: read a page at a time, then kept true by events. */
import { api, ok, sentenceOf, type Job } from "../lib/api";
import { live, type LiveEvent } from "../lib/live.svelte";
import { progressed } from "../lib/media.svelte";
import { toasts } from "../lib/toasts.svelte";
import { kindOfEvent, leftOut, toList, type Filters } from "./filters";
import { Paced } from "./paced";
import { appended, merged, replaced, runningFirst, type Page } from "./rows";

const PAGE = 50;
const LARGE_PAGE = 200;
const GAP_MS = 400;
/** More changed rows than this are read as a list again, not one by one. */
const ONE_BY_ONE = 6;

export class JobList {
  rows = $state.raw<Job[]>([]);
  held = $state.raw<Job[]>([]);
  next = $state<string | null>(null);
  problem = $state("");
  isLoaded = $state(false);
  isLoadingMore = $state(false);

  private changed = new Set<string>();
  private isStale = false;
  private paced = new Paced(() => this.catchUp(), GAP_MS);
  private isStopped = false;
  /** The last reading that was begun: an older one that ends later does not count. */
  private reading = 0;

  constructor(
    readonly filters: Filters,
    /** Whether somebody reads further down, where nothing may move. */
    private isReading: () => boolean,
  ) {}

  start(): () => void {
    void this.reload();
    const stops = [
      live.on(["*"], (event) => this.hear(event)),
      live.onReset(() => {
        this.isStale = true;
        this.paced.ask();
      }),
    ];
    return () => {
      this.isStopped = true;
      stops.forEach((stop) => stop());
      this.paced.stop();
    };
  }

  async more(): Promise<void> {
    if (!this.next || this.isLoadingMore) return;
    this.isLoadingMore = true;
    try {
      const page = await this.read(PAGE, this.next);
      this.rows = appended(this.rows, page.items);
      this.next = page.next;
    } catch (error) {
      toasts.bad(error);
    } finally {
      this.isLoadingMore = false;
    }
  }

  /** Show those that were held back. */
  release(): void {
    if (this.held.length) {
      this.held = [];
      this.isStale = true;
      this.paced.ask();
    }
  }

  /** What an action has answered. */
  put(job: Job): void {
    this.rows = replaced(this.rows, job);
  }

  /** As many as are shown, from the newest on. */
  async reload(): Promise<void> {
    const reading = ++this.reading;
    try {
      let items: Job[] = [];
      let next: string | null | undefined;
      const wanted = Math.max(PAGE, this.rows.length);
      do {
        const page = await this.read(wanted > PAGE ? LARGE_PAGE : PAGE, next);
        items = appended(items, page.items);
        next = page.next;
      } while (next && items.length < wanted);
      if (this.isStopped || reading !== this.reading) return;
      this.rows = items;
      this.held = [];
      this.next = next ?? null;
      this.problem = "";
      this.isLoaded = true;
    } catch (error) {
      if (!this.isStopped) this.problem = sentenceOf(error);
    }
  }

  private async read(limit: number, cursor?: string | null): Promise<{ items: Job[]; next: string | null }> {
    const order = this.filters.state ? "newest" : "running";
    const query = { ...toList(this.filters), order, limit, ...(cursor ? { cursor } : {}) } as const;
    const page = await ok(api.GET("/api/v1/jobs", { params: { query } }));
    return { items: page.items, next: page.next_cursor ?? null };
  }

  private hear(event: LiveEvent): void {
    if (event.type.startsWith("media.")) return this.hearOfMedia(event.media_id);
    const id = event.job_id;
    if (!id || event.type.endsWith(".passage")) return;
    const at = this.rows.findIndex((job) => job.id === id);
    if (at >= 0) this.rows = this.rows.with(at, progressed(this.rows[at]!, event));
    if (event.type.endsWith(".progress")) return;
    if (at < 0 && leftOut(this.filters).includes(kindOfEvent(event.type, true))) return;
    this.changed.add(id);
    this.paced.ask();
  }

  /** Its title may have changed, also while the list is on its way. */
  private hearOfMedia(id: string | undefined): void {
    if (!this.isLoaded) {
      this.isStale = true;
      return this.paced.ask();
    }
    const own = this.rows.filter((job) => job.media_id === id);
    own.forEach((job) => this.changed.add(job.id));
    if (own.length) this.paced.ask();
  }

  private async catchUp(): Promise<void> {
    const ids = [...this.changed];
    this.changed.clear();
    if (this.isStale || !this.isLoaded) {
      this.isStale = false;
      return this.reload();
    }
    try {
      const seen = await this.readTop(ids);
      const behind = ids.filter((id) => !seen.has(id) && this.rows.some((job) => job.id === id));
      if (behind.length > ONE_BY_ONE) return this.reload();
      await Promise.all(behind.map((id) => this.readOne(id)));
      if (!this.filters.state && !this.isReading()) this.rows = runningFirst(this.rows);
    } catch (error) {
      this.problem = sentenceOf(error);
    }
  }

  /** Answers which jobs the first page has told of. */
  private async readTop(ids: string[]): Promise<Set<string>> {
    const shown = new Set(this.rows.map((job) => job.id));
    const isSame = ids.every((id) => shown.has(id)) && ids.length <= ONE_BY_ONE && !this.filters.state;
    if (isSame) return new Set();
    const { items, next } = await this.read(PAGE);
    if (this.isStopped) return new Set(ids);
    const page: Page = { items, complete: next === null };
    const result = merged(this.rows, page, this.isReading());
    this.rows = result.rows;
    this.held = result.held;
    if (page.complete && !result.held.length) this.next = null;
    this.problem = "";
    return new Set(items.map((job) => job.id));
  }

  private async readOne(id: string): Promise<void> {
    const job = await ok(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } }));
    this.rows = replaced(this.rows, job);
  }
}
