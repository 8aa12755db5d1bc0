/** All uploads of this window: some at once, the rest wait for their turn. They go on while the pages
change, and come to rest when somebody signs out. */
import { session } from "../lib/session.svelte";
import { toasts } from "../lib/toasts.svelte";
import type { Given } from "./files";
import { isOpen, reopened } from "./handles";
import { options } from "./options.svelte";
import { timeLeft } from "./pace";
import { t } from "./texts";
import { giveUp, lookUp, markOf, Neighbours, notes, type Unfinished } from "./unfinished";
import { fingerprint, Upload } from "./upload.svelte";

const AT_ONCE = 3;
const SECOND_THOUGHTS_MS = 8_000;

class Uploads {
  items = $state.raw<Upload[]>([]);
  unfinished = $state.raw<Unfinished[]>([]);
  private owner = "";
  private held = true;
  private neighbours = new Neighbours(() => this.items.filter((each) => each.isOpen).map((each) => each.mark));

  readonly shown = $derived(this.items.filter((each) => each.state !== "canceled"));
  readonly open = $derived(this.shown.filter((each) => each.isOpen));
  /** Somebody would lose by leaving. */
  readonly isBusy = $derived(this.open.some((each) => each.state !== "paused"));
  readonly totals = $derived.by(() => {
    const counted = this.shown.filter((each) => each.state !== "failed");
    const sum = (part: (each: Upload) => number) => counted.reduce((all, each) => all + part(each), 0);
    const [size, sent, speed] = [sum((each) => each.file.size), sum((each) => each.sent), sum((each) => each.speed)];
    return { size, sent, speed, secondsLeft: timeLeft(size - sent, speed) };
  });

  constructor() {
    globalThis.addEventListener?.("pagehide", () => this.forgetCanceled());
  }

  /** Somebody is here. */
  async start(owner: string): Promise<void> {
    if (owner !== this.owner) this.items = [];
    this.owner = owner;
    this.held = false;
    this.pump();
    const busy = await this.neighbours.ask();
    const kept = notes(localStorage, owner).filter(({ key }) => !busy.has(markOf(key)) && !this.has(markOf(key)));
    const found = await Promise.all(kept.map(lookUp));
    this.unfinished = found.filter((each) => each !== undefined && !this.has(markOf(each.key))) as Unfinished[];
    for (const each of this.unfinished) if (each.handle && (await isOpen(each.handle))) await this.goOn(each);
  }

  /** With a file that there is still a way back to. */
  async goOn(item: Unfinished): Promise<void> {
    try {
      const file = item.handle && (await reopened(item.handle));
      if (!file || !item.handle) return;
      if (fingerprint(this.owner, file) !== markOf(item.key)) toasts.show(t.uploads.changed(item.name), { tone: "bad" });
      else this.add({ files: [file], leftOut: 0, handles: new Map([[file, item.handle]]) });
    } catch {
      toasts.show(t.uploads.fileGone, { tone: "bad" });
    }
  }

  /** Nobody is: what is under way waits. */
  hold(): void {
    this.held = true;
    for (const each of this.items) if (each.isUnderWay) each.stop("queued");
  }

  private has(mark: string): boolean {
    return this.items.some((each) => each.mark === mark && each.isOpen);
  }

  add({ files, leftOut, handles, folders }: Given): void {
    const known = new Set(this.open.map((each) => each.mark));
    const ends = { changed: () => this.pump(), signedOut: () => this.signedOut() };
    const made = files
      .map((file) => new Upload(file, this.owner, { ...options.now, folder: folders?.get(file) ?? "" }, ends, handles?.get(file)))
      .filter((each) => !known.has(each.mark) && known.add(each.mark));
    this.items = [...this.items.filter((each) => !(each.state === "failed" && known.has(each.mark))), ...made];
    this.unfinished = this.unfinished.filter((each) => !known.has(markOf(each.key)));
    if (!files.length && leftOut) toasts.show(t.uploads.nothingInFolder, { tone: "bad" });
    else if (leftOut) toasts.show(t.uploads.leftOut(leftOut));
    if (made.length < files.length) toasts.show(t.uploads.already(files.length - made.length));
    this.pump();
  }

  private pump(): void {
    if (this.held) return;
    let free = AT_ONCE - this.items.filter((each) => each.isUnderWay).length;
    for (const each of this.items) {
      if (free > 0 && each.state === "queued") {
        free -= 1;
        void each.start();
      }
    }
  }

  private signedOut(): void {
    if (this.held) return;
    this.hold();
    toasts.show(t.uploads.signedOut, { tone: "bad", ms: 30_000 });
    session.left();
  }

  // What people do with them

  pause(item: Upload): void {
    if (!item.isOpen) return;
    item.stop("paused");
    this.pump();
  }

  resume(item: Upload): void {
    if (item.state !== "paused" && item.state !== "failed") return;
    item.state = "queued";
    this.pump();
  }

  pauseAll(): void {
    for (const each of this.open) each.stop("paused");
  }

  resumeAll(): void {
    for (const each of this.items) if (each.state === "paused") each.state = "queued";
    this.pump();
  }

  retryAll(): void {
    for (const each of this.items) if (each.state === "failed") each.state = "queued";
    this.pump();
  }

  /** With a moment to think better of it when something is there already. */
  cancel(item: Upload): void {
    if (!item.isOpen || !item.sent) return this.drop(item);
    const before = item.state;
    item.stop("canceled");
    this.pump();
    const timer = setTimeout(() => this.drop(item), SECOND_THOUGHTS_MS);
    const undo = () => {
      clearTimeout(timer);
      item.state = before === "paused" ? "paused" : "queued";
      this.pump();
    };
    toasts.show(t.uploads.canceled(item.file.name), { ms: SECOND_THOUGHTS_MS, action: { label: t.common.undo, run: undo } });
  }

  private drop(item: Upload): void {
    if (item.isOpen) item.stop("canceled");
    if (item.state !== "done") void item.discard();
    this.items = this.items.filter((each) => each !== item);
    this.pump();
  }

  async giveUp(item: Unfinished): Promise<void> {
    this.unfinished = this.unfinished.filter((each) => each !== item);
    await giveUp(item);
  }

  /** What is over, well or not. */
  clear(): void {
    for (const each of this.items) if (each.state === "done" || each.state === "failed") this.drop(each);
  }

  /** The line is back, somebody says: those that wait try at once. */
  again(): void {
    for (const each of this.items) each.again();
  }

  isReady(mediaId: string): void {
    for (const each of this.items) if (each.mediaId === mediaId) each.ready = true;
  }

  private forgetCanceled(): void {
    for (const each of this.items) {
      if (each.state !== "canceled" || !each.url) continue;
      void fetch(each.url, { method: "DELETE", headers: { "Tus-Resumable": "1.0.0" }, keepalive: true });
    }
  }
}

export const uploads = new Uploads();
