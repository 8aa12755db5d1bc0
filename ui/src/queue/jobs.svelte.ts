/** The list of jobs. While somebody reads further down, nothing there moves: new ones are held back. */
import { api, ok, type Job } from "../lib/api";
import { kinds } from "../lib/kinds.svelte";
import { isProgress, type LiveEvent } from "../lib/live.svelte";
import { LiveList, type Page } from "../lib/live-list.svelte";
import { progressed } from "../lib/media.svelte";
import { leftOut, toList, type Filters } from "./filters";
import { merged, runningFirst } from "./rows";

const PAGE = 50;
/** More changed rows than this are read as a list again, not one by one. */
const ONE_BY_ONE = 6;

export class JobList extends LiveList<Job> {
  held = $state.raw<Job[]>([]);

  constructor(
    readonly filters: Filters,
    /** Whether somebody reads further down. */
    private isScrolled: () => boolean,
  ) {
    super(PAGE, { waitMs: 120, gapMs: 400 });
  }

  /** Show those that were held back. */
  release(): void {
    if (!this.held.length) return;
    this.held = [];
    this.refresh();
  }

  /** What an action has returned. */
  put(job: Job): void {
    this.replace(job);
  }

  protected override async fetchPage(cursor: string | null, limit: number): Promise<Page<Job>> {
    const order = this.filters.state ? "newest" : "running";
    const query = { ...toList(this.filters), order, limit, ...(cursor ? { cursor } : {}) } as const;
    const page = await ok(api.GET("/api/v1/jobs", { params: { query } }));
    return { items: page.items, next: page.next_cursor ?? null };
  }

  protected override apply(page: Page<Job>): void {
    super.apply(page);
    this.held = [];
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.type.startsWith("media.")) return this.onMediaEvent(event.media_id);
    const id = event.job_id;
    if (!id) return;
    const at = this.items.findIndex((job) => job.id === id);
    if (at >= 0) this.items = this.items.with(at, progressed(this.items[at]!, event));
    if (isProgress(event)) return;
    if (at < 0 && leftOut(this.filters).includes(kinds.ofEvent(event.type)?.name ?? "")) return;
    this.refresh(id);
  }

  /** Its title may have changed, also of jobs that are on their way. */
  private onMediaEvent(id: string | undefined): void {
    if (this.isFetching) return this.refresh();
    const own = this.items.filter((job) => job.media_id === id);
    if (own.length) this.refresh(...own.map((job) => job.id));
  }

  protected override async catchUp(ids: string[]): Promise<void> {
    const seen = await this.readTop(ids);
    const behind = ids.filter((id) => !seen.has(id) && this.items.some((job) => job.id === id));
    if (behind.length > ONE_BY_ONE) return this.load();
    await Promise.all(behind.map((id) => this.readOne(id)));
    if (!this.filters.state && !this.isScrolled()) this.items = runningFirst(this.items);
  }

  /** Returns which jobs the first page has told of. */
  private async readTop(ids: string[]): Promise<Set<string>> {
    const shown = new Set(this.items.map((job) => job.id));
    const isSame = ids.every((id) => shown.has(id)) && ids.length <= ONE_BY_ONE && !this.filters.state;
    if (isSame) return new Set();
    const counts = this.stillCounts();
    const page = await this.fetchPage(null, PAGE);
    if (!counts()) return new Set(ids);
    const isComplete = page.next === null;
    const result = merged(this.items, { items: page.items, isComplete }, this.isScrolled());
    this.items = result.rows;
    this.held = result.held;
    if (isComplete && !result.held.length) this.cursor = null;
    this.problem = "";
    return new Set(page.items.map((job) => job.id));
  }

  private async readOne(id: string): Promise<void> {
    const counts = this.stillCounts();
    const job = await ok(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } }));
    if (counts()) this.replace(job);
  }
}
