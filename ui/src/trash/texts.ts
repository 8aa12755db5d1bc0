/** The words of the trash. */
import { plural, translatable } from "../lib/language";
import { short, t as shared } from "../lib/texts";

const trash = {
  title: "Trash",
  holds: (n: number, size: string) => `${plural(n, "recording", "recordings")} · ${size}`,
  kept: (days: number) => `What you delete stays here for ${plural(days, "day", "days")}, then it is deleted permanently.`,
  counts: "Until then it counts toward the space you use.",
  deletedOn: (day: string) => `Deleted ${day}`,
  left: (days: number) => (days ? `${plural(days, "day", "days")} left` : "Less than a day left"),
  restore: "Restore",
  restoreOne: (title: string) => `Restore “${title}”`,
  restoreAll: "Restore all",
  restored: (title: string) => `“${short(title)}” is back in the library.`,
  restoredMany: (n: number) => `${plural(n, "recording is", "recordings are")} back in the library.`,
  purge: "Delete permanently",
  purgeOne: (title: string) => `Delete “${title}” permanently`,
  purgeTitle: (title: string) => `Delete “${short(title)}” permanently?`,
  purgeText: "The recording, its versions and its transcript are deleted. This cannot be undone.",
  purged: (n: number) => `${plural(n, "recording", "recordings")} deleted permanently.`,
  empty: "Empty trash",
  emptyTitle: (n: number) => `Delete ${plural(n, "recording", "recordings")} permanently?`,
  emptyText: (size: string) => `This frees ${size} on the server and cannot be undone.`,
  emptyNow: "The trash is empty",
  goneAlready: "It is no longer in the trash.",
  more: "Show more",
  failed: "The trash could not be loaded",
};

export const t = { ...shared, ...translatable({ trash }) };
