/** A list that is read a page at a time and kept true by events. Reading it again reads as much as
was shown, so that nothing jumps. */
import { LiveData, type LiveOptions } from "./live-data.svelte";
import { toasts } from "./toasts.svelte";

const LARGEST_PAGE = 200;

export interface Page<T, C = string> {
  items: T[];
  /** Where the next page begins; null behind the last one. */
  next: C | null;
}

export abstract class LiveList<T extends { id: string }, C = string> extends LiveData<Page<T, C>> {
  items = $state.raw<T[]>([]);
  cursor = $state.raw<C | null>(null);
  isLoadingMore = $state(false);

  /** Removed while a reading is under way, which may not know it yet. */
  private removed = new Set<string>();

  constructor(
    private pageSize: number,
    options: LiveOptions = {},
  ) {
    super(options);
  }

  protected abstract fetchPage(cursor: C | null, limit: number): Promise<Page<T, C>>;

  get hasMore(): boolean {
    return this.cursor !== null;
  }

  async more(): Promise<void> {
    if (this.isLoadingMore) return;
    this.isLoadingMore = true;
    try {
      while (this.cursor !== null) {
        const after: C = this.cursor;
        const page = await this.during(() => this.fetchPage(after, this.pageSize));
        if (this.isStopped) return;
        // When all was read anew meanwhile, the page may not follow what is shown now.
        if (this.cursor === after) return this.append(page);
      }
    } catch (error) {
      if (!this.isStopped) this.onMoreError(error);
    } finally {
      this.isLoadingMore = false;
    }
  }

  protected override async fetch(): Promise<Page<T, C>> {
    const limit = this.items.length > this.pageSize ? LARGEST_PAGE : this.pageSize;
    let { items, next } = await this.fetchPage(null, limit);
    while (next !== null && items.length < this.items.length) {
      const page: Page<T, C> = await this.fetchPage(next, limit);
      items = appended(items, page.items);
      next = page.next;
    }
    return { items, next };
  }

  protected override apply(page: Page<T, C>): void {
    this.items = this.without(page.items);
    this.cursor = page.next;
  }

  protected append(page: Page<T, C>): void {
    this.items = appended(this.items, this.without(page.items));
    this.cursor = page.next;
  }

  protected onMoreError(error: unknown): void {
    toasts.bad(error);
  }

  protected override async during<R>(work: () => Promise<R>): Promise<R> {
    if (!this.isFetching) this.removed.clear();
    return super.during(work);
  }

  /** Another list, of which nothing was read yet. */
  protected clear(): void {
    this.invalidate();
    this.items = [];
    this.cursor = null;
    this.isLoaded = false;
    this.problem = "";
  }

  protected replace(item: T): void {
    this.items = replaced(this.items, item);
  }

  protected remove(id: string): void {
    if (this.isFetching) this.removed.add(id);
    if (this.items.some((each) => each.id === id)) this.items = this.items.filter((each) => each.id !== id);
  }

  private without(items: T[]): T[] {
    return this.removed.size ? items.filter((each) => !this.removed.has(each.id)) : items;
  }
}

/** A later page behind what is shown; what moved from one to the other is there once. */
export function appended<T extends { id: string }>(items: T[], more: T[]): T[] {
  const shown = new Set(items.map((each) => each.id));
  return [...items, ...more.filter((each) => !shown.has(each.id))];
}

export function replaced<T extends { id: string }>(items: T[], item: T): T[] {
  const at = items.findIndex((each) => each.id === item.id);
  return at < 0 ? items : items.with(at, item);
}
