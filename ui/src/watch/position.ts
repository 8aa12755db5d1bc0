/** Where somebody stopped, as all their devices know it. */
import { api, ok } from "../lib/api";
import { keepPosition } from "../player/memory";

/** Nobody waits longer for it than for the picture. */
const PATIENCE_MS = 1_500;
/** Where nothing has moved, nothing is told. */
const MOVED_SECONDS = 1;
/** The first seconds are no place to come back to. */
const FIRST_SECONDS = 5;

/** Puts what the server knows into this device's memory, before the player looks there. */
export async function learn(id: string): Promise<void> {
  const asked = ok(api.GET("/api/v1/media/{media_id}/position", { params: { path: { media_id: id } } })).then(
    ({ seconds, finished, updated_at }) => {
      if (updated_at) keepPosition(localStorage, id, finished ? 0 : seconds, Infinity);
    },
    // This device's own memory is there.
    () => {},
  );
  await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]);
}

/** Tells the server; also while the page is being left. */
export function teller(id: string): (seconds: number) => void {
  let told: number | undefined;
  return (seconds) => {
    if (told === undefined ? seconds < FIRST_SECONDS : Math.abs(seconds - told) < MOVED_SECONDS) return;
    told = seconds;
    void fetch(`/api/v1/media/${encodeURIComponent(id)}/position`, {
      method: "PUT",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ seconds: Math.round(seconds * 10) / 10 }),
      keepalive: true,
    }).catch(() => {});
  };
}
