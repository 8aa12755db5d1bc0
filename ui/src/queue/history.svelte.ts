/** The figures of the charts, for a span of time and maybe one kind. */
import { api, ok, sentenceOf } from "../lib/api";
import { live } from "../lib/live.svelte";
import { HOUSEKEEPING } from "./filters";
import type { History, Range } from "./history";
import { Paced, whileSeen } from "./paced";

const GAP_MS = 4_000;
const LOOK_MS = 30_000;
const ENDED = [".completed", ".failed", ".canceled"];

export class LiveHistory {
  current = $state.raw<History | null>(null);
  problem = $state("");

  private paced = new Paced(() => this.load(), GAP_MS, 500);

  constructor(
    readonly range: Range,
    readonly kind: string,
    readonly housekeeping: boolean,
  ) {}

  start(): () => void {
    void this.load();
    const stops = [
      live.on(["*"], (event) => {
        if (event.job_id && ENDED.some((end) => event.type.endsWith(end))) this.paced.ask();
      }),
      live.onReset(() => this.paced.ask()),
      whileSeen(() => this.paced.ask(), LOOK_MS),
    ];
    return () => {
      stops.forEach((stop) => stop());
      this.paced.stop();
    };
  }

  private async load(): Promise<void> {
    try {
      const query = { hours: this.range, ...kinds(this.kind, this.housekeeping) };
      this.current = await ok(api.GET("/api/v1/queue/history", { params: { query } }));
      this.problem = "";
    } catch (error) {
      this.problem = sentenceOf(error);
    }
  }
}

function kinds(kind: string, housekeeping: boolean): { kind?: string; not_kind?: string } {
  if (kind) return { kind };
  return housekeeping ? {} : { not_kind: HOUSEKEEPING.join(",") };
}
