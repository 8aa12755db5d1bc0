/** The kinds of jobs that this server knows, and what pages ask about them. They are read before any
page is shown; one that nobody has declared goes by its name. */
import { api, ok, type Kind } from "./api";
import { t } from "./texts";

export type Slot = "watch" | "transcript";

class Kinds {
  items = $state.raw<Kind[]>([]);
  private loading: Promise<void> | undefined;

  /** Once; after a failure again. */
  load(): Promise<void> {
    return (this.loading ??= this.read().catch((error) => {
      this.loading = undefined;
      throw error;
    }));
  }

  label(name: string): string {
    return t.kinds[name] ?? this.get(name)?.label ?? name;
  }

  /** Whether its jobs make what is watched, or the transcript. */
  makes(name: string, slot: Slot): boolean {
    return this.get(name)?.output === slot;
  }

  isHousekeeping(name: string): boolean {
    return this.housekeeping.includes(name);
  }

  /** Whether no worker elsewhere runs its jobs. */
  isServersOwn(name: string): boolean {
    return this.get(name)?.remote === false;
  }

  /** Whether others are divided into its jobs. */
  isPart(name: string): boolean {
    return this.items.some((each) => each.parts.includes(name));
  }

  /** The kind whose jobs such an event tells of. */
  ofEvent(type: string): Kind | undefined {
    const family = type.slice(0, type.lastIndexOf("."));
    return this.items.find((each) => each.events === family);
  }

  /** How the types of their events begin, but for those of housekeeping. */
  get families(): string[] {
    return [...new Set(this.main.map((each) => each.events))];
  }

  /** All but housekeeping. */
  get main(): Kind[] {
    return this.items.filter((each) => !each.housekeeping);
  }

  /** The names of those that nobody waits for. */
  get housekeeping(): string[] {
    return this.items.filter((each) => each.housekeeping).map((each) => each.name);
  }

  /** Those that people start on a media. */
  get startable(): Kind[] {
    return this.items.filter((each) => each.can_start);
  }

  private get(name: string): Kind | undefined {
    return this.items.find((each) => each.name === name);
  }

  private async read(): Promise<void> {
    this.items = (await ok(api.GET("/api/v1/kinds"))).items;
  }
}

export const kinds = new Kinds();
