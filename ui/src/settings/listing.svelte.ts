/** A list as the server has it. Most settings tell no events, so it is read again when somebody comes
back to the page. */
import { live } from "../lib/live.svelte";
import { said } from "./sentence";

export class Listing<T> {
  items = $state.raw<T[] | null>(null);
  problem = $state("");
  private latest = 0;

  constructor(private read: () => Promise<T[]>) {}

  start(): () => void {
    const load = () => void this.load();
    load();
    window.addEventListener("focus", load);
    const stop = live.onReset(load);
    return () => {
      this.latest += 1;
      window.removeEventListener("focus", load);
      stop();
    };
  }

  async load(): Promise<void> {
    const mine = (this.latest += 1);
    try {
      const items = await this.read();
      if (mine !== this.latest) return;
      this.items = items;
      this.problem = "";
    } catch (error) {
      if (mine === this.latest) this.problem = said(error);
    }
  }
}
