/** The speech models, and how far their downloads are: those tell no events, so they are asked for
once a second while there are any. */
import { api, ok, type SpeechModel } from "../lib/api";
import { attempt, toasts } from "../lib/toasts.svelte";
import { Listing } from "./listing.svelte";
import { t } from "./texts";

const EVERY_MS = 1000;

export function isDownloading(model: SpeechModel): boolean {
  return Boolean(model.download && !model.download.error);
}

export class SpeechModels extends Listing<SpeechModel> {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    super(() => ok(api.GET("/api/v1/models/transcription")));
  }

  override start(): () => void {
    const stop = super.start();
    return () => {
      clearTimeout(this.timer);
      stop();
    };
  }

  override async load(): Promise<void> {
    const before = this.items.filter(isDownloading);
    await super.load();
    for (const { name } of before) {
      if (this.items.find((each) => each.name === name)?.installed) toasts.good(t.settings.models.ready(name));
    }
    clearTimeout(this.timer);
    if (!this.isStopped && this.items.some(isDownloading)) this.timer = setTimeout(() => void this.load(), EVERY_MS);
  }

  async pull(name: string): Promise<void> {
    const params = { path: { name } };
    await attempt(() => ok(api.POST("/api/v1/models/transcription/{name}/pull", { params })));
    await this.load();
  }

  async uninstall(name: string): Promise<void> {
    const params = { path: { name } };
    const work = () => ok(api.DELETE("/api/v1/models/transcription/{name}", { params }));
    await attempt(work, t.settings.models.removed(name));
    await this.load();
  }
}
