/** The words of the trash. */
import { plural, short, t as shared } from "../lib/texts";

const trash = {
  title: "Trash",
  holds: (n: number, size: string) => `${plural(n, "item", "items")} · ${size}`,
  kept: (days: number) => `What you delete stays here for ${plural(days, "day", "days")}, then it is gone for good.`,
  counts: "Until then it counts towards the space you use.",
  deletedOn: (day: string) => `Deleted ${day}`,
  left: (days: number) => (days ? `${plural(days, "day", "days")} left` : "Gone within a day"),
  restore: "Restore",
  restoreOne: (title: string) => `Restore “${title}”`,
  restoreAll: "Restore all",
  restored: (title: string) => `“${short(title)}” is back in the library.`,
  restoredMany: (n: number) => `${plural(n, "item is", "items are")} back in the library.`,
  purge: "Delete for ever",
  purgeOne: (title: string) => `Delete “${title}” for ever`,
  purgeTitle: (title: string) => `Delete “${short(title)}” for ever?`,
  purgeText: "The recording, its versions and its transcript are removed. This cannot be undone.",
  purged: (n: number) => `${plural(n, "item is", "items are")} deleted for ever.`,
  empty: "Empty trash",
  emptyTitle: (n: number) => `Delete ${plural(n, "recording", "recordings")} for ever?`,
  emptyText: (size: string) => `${size} are removed from the server. This cannot be undone.`,
  emptyNow: "The trash is empty",
  goneAlready: "Somebody was quicker: it is not in the trash any more.",
  more: "Show more",
  failed: "The trash could not be loaded",
};

export const t = { ...shared, trash };
