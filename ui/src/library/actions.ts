/** What can be done with media from the library. */
import { api, idempotencyKey, ok, type components, type Media } from "../lib/api";
import { confirm } from "../lib/confirm.svelte";
import { deletions } from "../lib/deleting.svelte";
import { attempt, toasts } from "../lib/toasts.svelte";
import { labels } from "./labels.svelte";
import { mediaList } from "./media-list.svelte";
import { t } from "./texts";

const path = (id: string) => ({ path: { media_id: id }, header: idempotencyKey() });

async function transcribe(id: string): Promise<void> {
  await ok(api.POST("/api/v1/media/{media_id}/retranscribe", { params: path(id), body: {} }));
  mediaList.refresh(id);
}

async function encode(id: string): Promise<void> {
  await ok(api.POST("/api/v1/media/{media_id}/retranscode", { params: path(id), body: { keep_others: true, drop_transcript: false } }));
  mediaList.refresh(id);
}

export const work = { transcribe, encode };
export type Work = keyof typeof work;

export async function again(media: Media, what: Work): Promise<void> {
  await attempt(() => work[what](media.id), t.library.again[what](1));
}

/** So many ids in one request, as the server takes them. */
const AT_ONCE = 1_000;
/** More than these at once are asked about. */
const MANY = 10;
/** Browsers ask before they take many files at once. */
const MOST_DOWNLOADS = 20;

type Action = components["schemas"]["MediaAction"];
type Done = components["schemas"]["MediaActionDone"];

/** One request for many; what could not be done is told once, in the end. */
async function actOn(ids: string[], action: Action["action"], labels: Pick<Action, "add" | "remove"> = { add: [], remove: [] }): Promise<Done> {
  const all: Done = { matched: 0, changed: 0, dry_run: false, ids: [], failed: [], share_urls: {} };
  for (let at = 0; at < ids.length; at += AT_ONCE) {
    const body: Action = { action, filter: { ids: ids.slice(at, at + AT_ONCE), everyone: false }, dry_run: false, ...labels };
    const done = await ok(api.POST("/api/v1/media/actions", { body }));
    all.changed += done.changed;
    all.matched += done.matched;
    all.ids.push(...done.ids);
    all.failed.push(...done.failed);
    Object.assign(all.share_urls, done.share_urls);
  }
  const [first] = all.failed;
  if (first) toasts.bad(new Error(t.library.notDone(all.failed.length, first.message)));
  return all;
}

/** Returns whether it was asked for; many only when somebody says so. */
export async function againForAll(ids: string[], what: Work): Promise<boolean> {
  const question = { title: t.library.againQuestion[what](ids.length), text: t.library.againMeans, yes: t.library.againYes };
  if (ids.length > MANY && !(await confirm(question))) return false;
  return attempt(async () => {
    const done = await actOn(ids, what === "encode" ? "retranscode" : "retranscribe");
    for (const id of done.ids.slice(0, MANY)) mediaList.refresh(id);
    if (done.changed) toasts.good(t.library.again[what](done.changed));
  });
}

export async function label(ids: string[], what: "tag" | "collect", add: string[], remove: string[]): Promise<boolean> {
  return attempt(async () => {
    const done = await actOn(ids, what, { add, remove });
    toasts.good(t.library.labeled(done.changed));
    void labels.load();
  });
}

/** A line for each: its title, and its link. */
export async function shareAll(items: Media[]): Promise<string | undefined> {
  const question = { title: t.library.shareQuestion(items.length), text: t.library.linkMeans, yes: t.library.shareYes };
  if (items.length > 1 && !(await confirm(question))) return undefined;
  let said: string | undefined;
  await attempt(async () => {
    const { share_urls } = await actOn(items.map((each) => each.id), "share");
    said = items.filter((each) => share_urls[each.id]).map((each) => `${each.title}\n${share_urls[each.id]}`).join("\n\n");
  });
  return said || undefined;
}

/** The originals, one after the other. */
export function downloadAll(items: Media[]): void {
  if (items.length > MOST_DOWNLOADS) return toasts.bad(new Error(t.library.tooManyDownloads(MOST_DOWNLOADS)));
  for (const [at, each] of items.entries()) {
    setTimeout(() => {
      const link = document.createElement("a");
      link.href = `/api/v1/media/${encodeURIComponent(each.id)}/source`;
      link.download = each.file_name || "";
      document.body.append(link);
      link.click();
      link.remove();
    }, at * 400);
  }
}

/** One goes at once, since it can be taken back; many only when somebody says so. Returns whether. */
export async function remove(items: Media[]): Promise<boolean> {
  const [only] = items;
  if (!only) return false;
  const many = items.length;
  if (many > 1) {
    const question = { title: t.library.trashQuestion(many), text: t.library.trashMeans, yes: t.library.moveToTrash };
    if (!(await confirm({ ...question, danger: true }))) return false;
  }
  const said = many === 1 ? t.library.deletedOne(only.title) : t.library.deletedMany(many);
  void deletions.start(items.map((each) => each.id), said);
  return true;
}

export async function rename(media: Media, title: string): Promise<void> {
  const params = { path: { media_id: media.id } };
  mediaList.put(await ok(api.PATCH("/api/v1/media/{media_id}", { params, body: { title } })));
}

/** Copies a link for others. Returns the link when the browser lets nobody copy. */
export async function share(media: Media): Promise<string | undefined> {
  let link = "";
  const done = await attempt(async () => {
    const params = { path: { media_id: media.id } };
    const shared = await ok(api.POST("/api/v1/media/{media_id}/share", { params }));
    link = shared.share_url ?? "";
  });
  if (!done || !link) return undefined;
  try {
    await navigator.clipboard.writeText(link);
    toasts.good(t.library.linkCopied);
    return undefined;
  } catch {
    return link;
  }
}
