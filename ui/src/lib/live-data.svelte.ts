/** What a page shows of the server: read when the page opens, and again when events say that it has
changed. `LiveList` does so for lists that are read a page at a time. */
import { untrack } from "svelte";
import { sentenceOf } from "./api";
import { Debouncer } from "./debounce";
import { live, type LiveEvent } from "./live.svelte";

export interface LiveOptions {
  /** From an event to the reading that it leads to. */
  waitMs?: number;
  /** Between the end of one such reading and the next. */
  gapMs?: number;
  /** For what tells no events: read again when somebody comes back to the page. */
  refreshOnReturn?: boolean;
  /** Also every so often, while the page is seen. */
  pollMs?: number;
}

export abstract class LiveData<R> {
  problem = $state("");
  /** It was read at least once. */
  isLoaded = $state(false);

  private debouncer: Debouncer | undefined;
  /** Readings are numbered as they begin; `settled` is the last whose answer counts. */
  private begun = 0;
  private settled = 0;
  private underWay = 0;
  private isStale = false;
  private changed = new Set<string>();
  protected isStopped = false;

  constructor(private options: LiveOptions = {}) {}

  protected abstract fetch(): Promise<R>;
  protected abstract apply(result: R): void;

  /** What an event means for this. Words of a transcript under way are not told here. */
  protected onEvent(_event: LiveEvent): void {}

  /** It is time to look, or somebody has come back. */
  protected onPoll(): void {
    this.refresh();
  }

  /** Reads only what has changed, where that is less than everything. */
  protected catchUp(_ids: string[]): Promise<void> {
    return this.load();
  }

  protected onError(error: unknown): void {
    this.problem = this.sentence(error);
  }

  protected sentence(error: unknown): string {
    return sentenceOf(error);
  }

  /** Reads, and listens from now on. Returns how to stop. */
  start(): () => void {
    return untrack(() => {
      const { waitMs, gapMs } = this.options;
      this.isStopped = false;
      const debouncer = (this.debouncer = new Debouncer(() => this.readAgain(), waitMs, gapMs));
      const stops = [
        live.on(["*"], (event) => {
          if (!event.type.endsWith(".passage")) this.onEvent(event);
        }),
        live.onReset(() => void this.load()),
        // What failed while the server was away is read as soon as it is back.
        live.onOpen(() => this.problem && void this.load()),
        this.poll(),
      ];
      void this.load();
      return () => {
        stops.forEach((stop) => stop());
        debouncer.stop();
        this.isStopped = true;
        this.invalidate();
      };
    });
  }

  /** Now. Of readings that overtake each other, the one that began last counts. */
  async load(): Promise<void> {
    const reading = ++this.begun;
    this.isStale = false;
    this.changed.clear();
    try {
      const result = await this.during(() => this.fetch());
      if (reading <= this.settled) return;
      this.settled = reading;
      this.apply(result);
      this.problem = "";
      this.isLoaded = true;
    } catch (error) {
      if (reading <= this.settled) return;
      // What it was to bring is missing still, and no answer that began before has it.
      this.isStale = true;
      this.onError(error);
    }
  }

  /** Now, and without what was wrong the last time. */
  retry(): Promise<void> {
    this.problem = "";
    return this.load();
  }

  /** In a moment; with ids, only what has to do with them, where `catchUp` can. What is under way may
  not know of the change yet, so that its end is waited for. */
  refresh(...ids: string[]): void {
    ids.forEach((id) => this.changed.add(id));
    if (!ids.length) this.isStale = true;
    if (!this.underWay) this.debouncer?.schedule();
  }

  protected get isFetching(): boolean {
    return this.underWay > 0;
  }

  /** Whatever is under way counts no more. */
  protected invalidate(): void {
    this.settled = ++this.begun;
  }

  /** Whether a part that is asked for now still counts when it comes: not if all of it was read
  meanwhile, or if nobody wants it any more. */
  protected stillCounts(): () => boolean {
    const { settled } = this;
    return () => settled === this.settled;
  }

  protected async during<T>(work: () => Promise<T>): Promise<T> {
    this.underWay += 1;
    try {
      return await work();
    } finally {
      this.underWay -= 1;
      if (!this.underWay && (this.isStale || this.changed.size)) this.debouncer?.schedule();
    }
  }

  private async readAgain(): Promise<void> {
    if (this.underWay) return;
    const ids = [...this.changed];
    if (this.isStale || !this.isLoaded || !ids.length) return this.load();
    this.changed.clear();
    const counts = this.stillCounts();
    try {
      await this.catchUp(ids);
    } catch (error) {
      if (!counts()) return;
      ids.forEach((id) => this.changed.add(id));
      this.onError(error);
    }
  }

  private poll(): () => void {
    const { pollMs, refreshOnReturn } = this.options;
    if (!pollMs && !refreshOnReturn) return () => {};
    const look = () => {
      if (!document.hidden) this.onPoll();
    };
    const timer = pollMs ? setInterval(look, pollMs) : undefined;
    document.addEventListener("visibilitychange", look);
    window.addEventListener("focus", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("focus", look);
    };
  }
}

/** One answer of the server. `matters`: which events change it. */
export class LiveValue<T> extends LiveData<T> {
  current = $state.raw<T | null>(null);

  constructor(
    private read: () => Promise<T>,
    private matters: (event: LiveEvent) => boolean,
    options: LiveOptions = {},
  ) {
    super(options);
  }

  protected override fetch(): Promise<T> {
    return this.read();
  }

  protected override apply(result: T): void {
    this.current = result;
  }

  protected override onEvent(event: LiveEvent): void {
    if (this.matters(event)) this.refresh();
  }
}
