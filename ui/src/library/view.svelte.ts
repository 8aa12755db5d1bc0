/** Grid or list, as this browser was left. */
import type { View } from "./grid";

const KEPT = "rushes.library-view";

class Kept {
  now = $state<View>(read());

  choose(view: View): void {
    this.now = view;
    try {
      localStorage.setItem(KEPT, view);
    } catch {
      // It counts until the page is closed.
    }
  }
}

function read(): View {
  try {
    return globalThis.localStorage?.getItem(KEPT) === "list" ? "list" : "grid";
  } catch {
    return "grid";
  }
}

export const view = new Kept();
