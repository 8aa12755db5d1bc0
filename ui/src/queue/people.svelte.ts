/** Users and workers by name, for admins: others see only their own jobs. */
import { api, ok, type User, type Worker } from "../lib/api";
import type { LiveEvent } from "../lib/live.svelte";
import { LiveData } from "../lib/live-data.svelte";
import { session } from "../lib/session.svelte";

type Named<T> = PromiseSettledResult<{ items: T[] }>;

export class People extends LiveData<[Named<User>, Named<Worker>]> {
  users = $state.raw<User[]>([]);
  workers = $state.raw<Worker[]>([]);

  constructor() {
    super({ gapMs: 5_000 });
  }

  override start(): () => void {
    return session.isAdmin ? super.start() : () => {};
  }

  /** "" for nobody, and for who is not known. */
  userName(id: string): string {
    return this.users.find((each) => each.id === id)?.name ?? "";
  }

  protected override fetch(): Promise<[Named<User>, Named<Worker>]> {
    return Promise.allSettled([ok(api.GET("/api/v1/users")), ok(api.GET("/api/v1/workers"))]);
  }

  protected override apply([users, workers]: [Named<User>, Named<Worker>]): void {
    // Without them the list is still good; only the names are missing.
    if (users.status === "fulfilled") this.users = users.value.items;
    if (workers.status === "fulfilled") this.workers = workers.value.items;
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.type === "worker.online") this.refresh();
  }
}
