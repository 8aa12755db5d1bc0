/** Which cards are chosen. */
import { SvelteSet } from "svelte/reactivity";

export class Selection {
  ids = new SvelteSet<string>();
  /** Somebody is choosing, even if nothing is chosen yet. */
  choosing = $state(false);
  private anchor: string | undefined;

  get on(): boolean {
    return this.choosing || this.ids.size > 0;
  }

  toggle(id: string): void {
    if (!this.ids.delete(id)) this.ids.add(id);
    this.anchor = id;
  }

  /** From the last one that was clicked to this one. */
  reach(id: string, order: string[]): void {
    const from = order.indexOf(this.anchor ?? id);
    const to = order.indexOf(id);
    if (from < 0 || to < 0) return this.toggle(id);
    for (const each of order.slice(Math.min(from, to), Math.max(from, to) + 1)) this.ids.add(each);
  }

  all(order: string[]): void {
    for (const each of order) this.ids.add(each);
  }

  clear(): void {
    this.ids.clear();
    this.choosing = false;
    this.anchor = undefined;
  }

  /** What is not there any more cannot be chosen. */
  keep(there: (id: string) => boolean): void {
    for (const id of this.ids) if (!there(id)) this.ids.delete(id);
  }
}
