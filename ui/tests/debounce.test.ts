import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Debouncer } from "../src/lib/debounce";

describe("debounced work", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("is done once for many calls, and not more often than allowed", async () => {
    const work = vi.fn(async () => {});
    const debouncer = new Debouncer(work, 100, 1000);
    for (let n = 0; n < 50; n += 1) debouncer.schedule();
    await vi.advanceTimersByTimeAsync(100);
    expect(work).toHaveBeenCalledTimes(1);
    debouncer.schedule();
    await vi.advanceTimersByTimeAsync(900);
    expect(work).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(200);
    expect(work).toHaveBeenCalledTimes(2);
  });

  it("is done again when it was asked for meanwhile, also after a failure", async () => {
    let fail: (error: Error) => void = () => {};
    const work = vi.fn(() => new Promise<void>((_, reject) => (fail = reject)));
    const debouncer = new Debouncer(() => work().catch(() => {}), 10, 100);
    debouncer.schedule();
    await vi.advanceTimersByTimeAsync(10);
    debouncer.schedule();
    fail(new Error("no"));
    await vi.advanceTimersByTimeAsync(200);
    expect(work).toHaveBeenCalledTimes(2);
    debouncer.stop();
    debouncer.schedule();
    await vi.advanceTimersByTimeAsync(1000);
    expect(work).toHaveBeenCalledTimes(2);
  });

  it("is not done again when it was stopped while it ran", async () => {
    let end: () => void = () => {};
    const work = vi.fn(() => new Promise<void>((resolve) => (end = resolve)));
    const debouncer = new Debouncer(work, 10);
    debouncer.schedule();
    await vi.advanceTimersByTimeAsync(10);
    debouncer.schedule();
    debouncer.stop();
    end();
    await vi.advanceTimersByTimeAsync(1000);
    expect(work).toHaveBeenCalledTimes(1);
  });
});
