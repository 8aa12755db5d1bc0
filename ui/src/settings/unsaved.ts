/** Asks before somebody leaves what they have not saved. */
import { confirm } from "../lib/confirm.svelte";
import { router } from "../lib/router.svelte";
import { t } from "./texts";

export function mayDiscard(): Promise<boolean> {
  return confirm({
    title: t.settings.discardTitle,
    text: t.settings.discardText,
    yes: t.settings.discard,
    no: t.settings.keepEditing,
    danger: true,
  });
}

/** Returns how to stop it. */
export function guardUnsaved(isDirty: () => boolean): () => void {
  const here = location.pathname + location.search;

  const unload = (event: BeforeUnloadEvent) => {
    if (isDirty()) event.preventDefault();
  };
  // The way back has been gone by the time we hear of it: return, ask, and go it again.
  const back = () => {
    if (!isDirty()) return false;
    const wanted = location.pathname + location.search;
    history.pushState(null, "", here);
    void mayDiscard().then((yes) => {
      if (!yes) return;
      stop();
      router.go(wanted, { replace: true });
    });
    return true;
  };
  const stop = () => {
    window.removeEventListener("beforeunload", unload);
    if (router.beforeBack === back) router.beforeBack = undefined;
  };
  window.addEventListener("beforeunload", unload);
  router.beforeBack = back;
  return stop;
}
