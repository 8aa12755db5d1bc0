import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { live, type LiveEvent } from "../src/lib/live.svelte";
import { LiveValue } from "../src/lib/live-data.svelte";
import { appended, LiveList, replaced, type Page } from "../src/lib/live-list.svelte";
import { toasts } from "../src/lib/toasts.svelte";

interface Item {
  id: string;
  title?: string;
}

interface Call {
  cursor: string | null;
  limit: number;
  answer: (ids: string, next?: string | null) => Promise<void>;
  fail: (sentence: string) => Promise<void>;
}

const settle = () => vi.advanceTimersByTimeAsync(0);
const tell = (event: LiveEvent) => (live as unknown as { tell: (event: LiveEvent) => void }).tell(event);
const open = () => (live as unknown as { opened: () => void }).opened();

/** Every request waits until the test answers it. */
class Items extends LiveList<Item> {
  calls: Call[] = [];
  caughtUp: string[][] = [];
  isAway = false;

  constructor(pageSize = 2) {
    super(pageSize, { waitMs: 100 });
  }

  protected override fetchPage(cursor: string | null, limit: number): Promise<Page<Item>> {
    return new Promise((resolve, reject) => {
      this.calls.push({
        cursor,
        limit,
        answer: async (ids, next = null) => {
          resolve({ items: ids.split(" ").filter(Boolean).map((id) => ({ id })), next });
          await settle();
        },
        fail: async (sentence) => {
          reject(new Error(sentence));
          await settle();
        },
      });
    });
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.type === "item.deleted") this.remove(event.id!);
    else if (event.type === "item.changed") this.refresh(event.id!);
    else if (event.type === "list.changed") this.refresh();
  }

  protected override async catchUp(ids: string[]): Promise<void> {
    this.caughtUp.push(ids);
    if (this.isAway) throw new Error("away");
  }

  switch(): void {
    this.clear();
  }

  get shown(): string {
    return this.items.map((each) => each.id).join(" ");
  }
}

let stop = () => {};

function started(): Items {
  const list = new Items();
  stop = list.start();
  return list;
}

async function loaded(ids = "a b", next: string | null = null): Promise<Items> {
  const list = started();
  await list.calls[0]!.answer(ids, next);
  return list;
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  stop();
  stop = () => {};
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

describe("a first reading", () => {
  it("shows a page and knows that there are more", async () => {
    const list = started();
    expect([list.isLoaded, list.shown]).toEqual([false, ""]);
    await list.calls[0]!.answer("a b", "b");
    expect([list.isLoaded, list.shown, list.hasMore]).toEqual([true, "a b", true]);
    expect(list.calls[0]).toMatchObject({ cursor: null, limit: 2 });
  });

  it("is followed by another for what happened meanwhile", async () => {
    const list = started();
    tell({ type: "list.changed" });
    await vi.advanceTimersByTimeAsync(500);
    expect(list.calls).toHaveLength(1);
    await list.calls[0]!.answer("a b");
    expect(list.shown).toBe("a b");
    await vi.advanceTimersByTimeAsync(100);
    await list.calls[1]!.answer("c a");
    expect(list.shown).toBe("c a");
    await vi.advanceTimersByTimeAsync(1000);
    expect(list.calls).toHaveLength(2);
  });

  it("is followed by a look at the items that changed meanwhile", async () => {
    const list = started();
    tell({ type: "item.changed", id: "a" });
    tell({ type: "item.changed", id: "a" });
    tell({ type: "item.changed", id: "b" });
    await list.calls[0]!.answer("a b");
    await vi.advanceTimersByTimeAsync(100);
    expect(list.caughtUp).toEqual([["a", "b"]]);
    expect(list.calls).toHaveLength(1);
  });

  it("leaves out what vanished meanwhile", async () => {
    const list = started();
    tell({ type: "item.deleted", id: "a" });
    await list.calls[0]!.answer("a b");
    expect(list.shown).toBe("b");
    // The next reading knows better: it may have been restored.
    tell({ type: "list.changed" });
    await vi.advanceTimersByTimeAsync(100);
    await list.calls[1]!.answer("a b");
    expect(list.shown).toBe("a b");
  });

  it("that failed is done again when the connection is there, or when asked for", async () => {
    const list = started();
    await list.calls[0]!.fail("away");
    expect([list.problem, list.isLoaded]).toEqual(["away", false]);
    open();
    await list.calls[1]!.fail("still away");
    expect(list.problem).toBe("still away");
    void list.retry();
    expect(list.problem).toBe("");
    await list.calls[2]!.answer("a");
    expect([list.problem, list.shown]).toEqual(["", "a"]);
  });
});

describe("readings that overtake each other", () => {
  it("end with what the later one says", async () => {
    const list = started();
    void list.load();
    await list.calls[1]!.answer("new");
    await list.calls[0]!.answer("old");
    expect(list.shown).toBe("new");
  });

  it("show the earlier one until the later one is there", async () => {
    const list = started();
    void list.load();
    await list.calls[0]!.answer("old");
    expect(list.shown).toBe("old");
    await list.calls[1]!.answer("new");
    expect(list.shown).toBe("new");
  });

  it("do not tell of an earlier failure", async () => {
    const list = started();
    void list.load();
    await list.calls[1]!.answer("new");
    await list.calls[0]!.fail("away");
    expect(list.problem).toBe("");
  });

  it("keep what is shown when reading it again fails", async () => {
    const list = await loaded();
    void list.load();
    await list.calls[1]!.fail("away");
    expect([list.shown, list.isLoaded, list.problem]).toEqual(["a b", true, "away"]);
  });

  it("are followed by another when the later one failed", async () => {
    const list = started();
    tell({ type: "list.changed" });
    void list.load();
    await list.calls[1]!.fail("away");
    await list.calls[0]!.answer("old");
    await vi.advanceTimersByTimeAsync(100);
    await list.calls[2]!.answer("new");
    expect([list.shown, list.problem]).toEqual(["new", ""]);
  });

  it("that failed leave nothing out of the next look", async () => {
    const list = await loaded();
    tell({ type: "list.changed" });
    await vi.advanceTimersByTimeAsync(100);
    await list.calls[1]!.fail("away");
    tell({ type: "item.changed", id: "a" });
    await vi.advanceTimersByTimeAsync(100);
    expect(list.caughtUp).toEqual([]);
    await list.calls[2]!.answer("new a b");
    expect(list.shown).toBe("new a b");
  });

  it("of some items are done again with the next ones when they failed", async () => {
    const list = await loaded();
    list.isAway = true;
    tell({ type: "item.changed", id: "a" });
    await vi.advanceTimersByTimeAsync(100);
    list.isAway = false;
    tell({ type: "item.changed", id: "b" });
    await vi.advanceTimersByTimeAsync(100);
    expect(list.caughtUp).toEqual([["a"], ["a", "b"]]);
  });

  it("are of no use to another list", async () => {
    const list = started();
    list.switch();
    void list.load();
    await list.calls[0]!.answer("of before");
    expect([list.shown, list.isLoaded]).toEqual(["", false]);
    await list.calls[1]!.answer("a");
    expect(list.shown).toBe("a");
  });
});

describe("pages", () => {
  it("follow each other, each item once", async () => {
    const list = await loaded("a b", "b");
    void list.more();
    void list.more();
    expect(list.calls).toHaveLength(2);
    expect([list.isLoadingMore, list.calls[1]!.cursor]).toEqual([true, "b"]);
    await list.calls[1]!.answer("b c");
    expect([list.shown, list.hasMore, list.isLoadingMore]).toEqual(["a b c", false, false]);
    void list.more();
    expect(list.calls).toHaveLength(2);
  });

  it("are all read again, so that nothing jumps", async () => {
    const list = await loaded("a b", "b");
    void list.more();
    await list.calls[1]!.answer("c d", "d");
    void list.load();
    expect(list.calls[2]).toMatchObject({ cursor: null, limit: 200 });
    await list.calls[2]!.answer("n a", "a");
    await list.calls[3]!.answer("b c", "c");
    expect([list.shown, list.cursor]).toEqual(["n a b c", "c"]);
  });

  it("stay when they come while all is read again", async () => {
    const list = await loaded("a b", "b");
    void list.load();
    void list.more();
    await list.calls[2]!.answer("c d");
    await list.calls[1]!.answer("a b", "b");
    await list.calls[3]!.answer("c d");
    expect(list.shown).toBe("a b c d");
  });

  it("are asked for again when they no longer follow what is shown", async () => {
    const list = await loaded("a b", "b");
    void list.more();
    void list.load();
    await list.calls[2]!.answer("n a", "a");
    await list.calls[1]!.answer("c d");
    expect([list.shown, list.isLoadingMore]).toEqual(["n a", true]);
    expect(list.calls[3]!.cursor).toBe("a");
    await list.calls[3]!.answer("b c", "c");
    expect([list.shown, list.isLoadingMore]).toEqual(["n a b c", false]);
  });

  it("leave out what vanished on their way", async () => {
    const list = await loaded("a b", "b");
    void list.more();
    tell({ type: "item.deleted", id: "a" });
    tell({ type: "item.deleted", id: "c" });
    await list.calls[1]!.answer("c d");
    expect(list.shown).toBe("b d");
  });

  it("that fail are told of, and can be asked for again", async () => {
    const bad = vi.spyOn(toasts, "bad").mockImplementation(() => {});
    const list = await loaded("a b", "b");
    void list.more();
    await list.calls[1]!.fail("away");
    expect(bad).toHaveBeenCalledTimes(1);
    expect([list.shown, list.isLoadingMore, list.hasMore]).toEqual(["a b", false, true]);
  });
});

describe("a list that was left", () => {
  it("takes no answer that was under way", async () => {
    const bad = vi.spyOn(toasts, "bad").mockImplementation(() => {});
    const list = await loaded("a b", "b");
    void list.load();
    void list.more();
    stop();
    await list.calls[1]!.answer("x");
    await list.calls[2]!.fail("away");
    expect([list.shown, list.problem]).toEqual(["a b", ""]);
    expect(bad).not.toHaveBeenCalled();
  });

  it("hears nothing, and reads nothing that was due", async () => {
    const list = await loaded();
    tell({ type: "list.changed" });
    stop();
    tell({ type: "list.changed" });
    await vi.advanceTimersByTimeAsync(1000);
    expect(list.calls).toHaveLength(1);
  });

  it("can be shown again", async () => {
    const list = await loaded();
    stop();
    stop = list.start();
    await list.calls[1]!.answer("c");
    tell({ type: "list.changed" });
    await vi.advanceTimersByTimeAsync(100);
    await list.calls[2]!.answer("d");
    expect(list.shown).toBe("d");
  });
});

describe("one answer", () => {
  it("is read again when events say so, when somebody comes back, and now and then", async () => {
    const [page, frame] = [Object.assign(new EventTarget(), { hidden: false }), new EventTarget()];
    vi.stubGlobal("document", page);
    vi.stubGlobal("window", frame);
    let count = 0;
    const value = new LiveValue(async () => (count += 1), (event) => event.type === "yes", { waitMs: 100, pollMs: 10_000 });
    stop = value.start();
    await settle();
    expect(value.current).toBe(1);
    tell({ type: "no" });
    tell({ type: "yes" });
    tell({ type: "yes.passage" });
    await vi.advanceTimersByTimeAsync(100);
    expect(value.current).toBe(2);
    page.dispatchEvent(new Event("visibilitychange"));
    frame.dispatchEvent(new Event("focus"));
    await vi.advanceTimersByTimeAsync(100);
    expect(value.current).toBe(3);
    page.hidden = true;
    await vi.advanceTimersByTimeAsync(30_000);
    expect(value.current).toBe(3);
    page.hidden = false;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(value.current).toBe(4);
    tell({ type: "reset" });
    await settle();
    expect(value.current).toBe(5);
  });
});

it("items are added once, and replaced only where they are", () => {
  const rows: Item[] = [{ id: "a" }, { id: "b" }];
  expect(appended(rows, [{ id: "b" }, { id: "c" }]).map((each) => each.id)).toEqual(["a", "b", "c"]);
  expect(replaced(rows, { id: "b", title: "new" })[1]).toEqual({ id: "b", title: "new" });
  expect(replaced(rows, { id: "x" })).toBe(rows);
});
