/** The figures of the charts, for a span of time and maybe one kind. */
import { api, ok } from "../lib/api";
import { LiveValue } from "../lib/live-data.svelte";
import { leftOut } from "./filters";
import type { History, Range } from "./history";

const ENDED = /\.(completed|failed|canceled)$/;

export class LiveHistory extends LiveValue<History> {
  constructor(
    readonly range: Range,
    kind: string,
    housekeeping: boolean,
  ) {
    const not = leftOut({ kind, housekeeping }).join(",");
    const query = { hours: range, ...(kind ? { kind } : {}), ...(not ? { not_kind: not } : {}) };
    super(
      () => ok(api.GET("/api/v1/queue/history", { params: { query } })),
      (event) => event.job_id !== undefined && ENDED.test(event.type),
      { waitMs: 500, gapMs: 4_000, pollMs: 30_000 },
    );
  }
}
