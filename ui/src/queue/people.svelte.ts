/** Users and workers by name, for admins: others see only their own jobs. */
import { api, ok, type User, type Worker } from "../lib/api";
import { live } from "../lib/live.svelte";
import { session } from "../lib/session.svelte";
import { Paced } from "./paced";

export class People {
  users = $state.raw<User[]>([]);
  workers = $state.raw<Worker[]>([]);

  private paced = new Paced(() => this.load(), 5_000);

  start(): () => void {
    if (!session.isAdmin) return () => {};
    void this.load();
    const stops = [live.on(["worker.online"], () => this.paced.ask()), live.onReset(() => this.paced.ask())];
    return () => {
      stops.forEach((stop) => stop());
      this.paced.stop();
    };
  }

  /** "" for nobody, and for who is not known. */
  userName(id: string): string {
    return this.users.find((each) => each.id === id)?.name ?? "";
  }

  private async load(): Promise<void> {
    const [users, workers] = await Promise.allSettled([ok(api.GET("/api/v1/users")), ok(api.GET("/api/v1/workers"))]);
    // Without them the list is still good; only the names are missing.
    if (users.status === "fulfilled") this.users = users.value.items;
    if (workers.status === "fulfilled") this.workers = workers.value.items;
  }
}
