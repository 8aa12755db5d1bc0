/** What can be done with media from the library. */
import { api, idempotencyKey, ok, type Media } from "../lib/api";
import { confirm } from "../lib/confirm.svelte";
import { deletions } from "../lib/deleting.svelte";
import { attempt, toasts } from "../lib/toasts.svelte";
import { mediaList } from "./media-list.svelte";
import { t } from "./texts";

const AT_ONCE = 4;

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

/** The same for many; `tell` hears how many are through. What fails is told once, in the end. */
export async function againForAll(ids: string[], what: Work, tell: (done: number) => void): Promise<void> {
  const left = [...ids];
  const problems: unknown[] = [];
  let done = 0;
  const worker = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      await work[what](id).catch((error: unknown) => problems.push(error));
      tell(++done);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  if (done > problems.length) toasts.good(t.library.again[what](done - problems.length));
  if (problems.length) toasts.bad(problems[0]);
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
