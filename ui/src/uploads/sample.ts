/** A clip that comes with the server, for who has no recording at hand. */
import { api, ok } from "../lib/api";
import { attempt } from "../lib/toasts.svelte";
import { t } from "./texts";

/** Returns whether it is there now. */
export function addSample(): Promise<boolean> {
  return attempt(() => ok(api.POST("/api/v1/media/sample")), t.uploads.sampleAdded);
}
