/** What the page that is open can do, for the command palette to offer. */
import { untrack } from "svelte";
import type { Item } from "../components/Menu.svelte";

class Commands {
  /** The palette is open. */
  isOpen = $state(false);
  private offers = $state.raw<(() => Item[])[]>([]);

  /** Returns how to take them away again. */
  offer(items: () => Item[]): () => void {
    // Whoever offers something is no reader of the list.
    untrack(() => (this.offers = [...this.offers, items]));
    return () => untrack(() => (this.offers = this.offers.filter((each) => each !== items)));
  }

  get items(): Item[] {
    return this.offers.flatMap((each) => each()).filter((each) => !each.disabled);
  }
}

export const commands = new Commands();
