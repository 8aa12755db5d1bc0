/** The kinds of jobs that this server knows: what each is called, and which can be started by hand. */
import { api, ok, type Kind } from "./api";

class Kinds {
  private items = $state.raw<Kind[]>([]);

  /** Called once somebody is signed in; until it is answered, kinds go by their names. */
  async load(): Promise<void> {
    try {
      this.items = (await ok(api.GET("/api/v1/kinds"))).items;
    } catch {
      // The page itself says when the server is away.
    }
  }

  label(name: string): string {
    return this.items.find((each) => each.name === name)?.label ?? name;
  }

  get startable(): Kind[] {
    return this.items.filter((each) => each.can_start);
  }
}

export const kinds = new Kinds();
