/** Files that were made of what is watched, or could not be made. */
import { api, ok, type Export } from "../lib/api";
import type { LiveEvent } from "../lib/live.svelte";
import { LiveData } from "../lib/live-data.svelte";

const ENDS = /^(export\.(completed|failed|canceled|queued)|media\.updated)$/;

export class Exports extends LiveData<Export[]> {
  items = $state.raw<Export[]>([]);

  constructor(readonly mediaId: string) {
    super();
  }

  protected override async fetch(): Promise<Export[]> {
    const path = { media_id: this.mediaId };
    return (await ok(api.GET("/api/v1/media/{media_id}/exports", { params: { path } }))).items;
  }

  protected override apply(items: Export[]): void {
    this.items = items;
  }

  protected override onEvent(event: LiveEvent): void {
    if (event.media_id === this.mediaId && ENDS.test(event.type)) this.refresh();
  }
}
