/** The trash in German. */
import { plural, type Translation } from "../lib/language";
import { short } from "../lib/texts";
import type { t } from "./texts";

export const de: Translation<Pick<typeof t, "trash">> = {
  trash: {
    title: "Papierkorb",
    holds: (n, size) => `${plural(n, "Aufnahme", "Aufnahmen")} · ${size}`,
    kept: (days) => `Gelöschtes bleibt ${plural(days, "Tag", "Tage")} hier, danach ist es endgültig weg.`,
    counts: "Bis dahin zählt es zum belegten Speicherplatz.",
    deletedOn: (day) => `Gelöscht am ${day}`,
    left: (days) => (days ? `noch ${plural(days, "Tag", "Tage")}` : "noch weniger als ein Tag"),
    restore: "Wiederherstellen",
    restoreOne: (title) => `„${title}“ wiederherstellen`,
    restoreAll: "Alle wiederherstellen",
    restored: (title) => `„${short(title)}“ ist wieder in der Mediathek.`,
    restoredMany: (n) => `${plural(n, "Aufnahme ist", "Aufnahmen sind")} wieder in der Mediathek.`,
    purge: "Endgültig löschen",
    purgeOne: (title) => `„${title}“ endgültig löschen`,
    purgeTitle: (title) => `„${short(title)}“ endgültig löschen?`,
    purgeText: "Die Aufnahme, ihre Fassungen und ihr Transkript werden entfernt. Das lässt sich nicht rückgängig machen.",
    purged: (n) => `${plural(n, "Aufnahme ist", "Aufnahmen sind")} endgültig gelöscht.`,
    empty: "Papierkorb leeren",
    emptyTitle: (n) => `${plural(n, "Aufnahme", "Aufnahmen")} endgültig löschen?`,
    emptyText: (size) => `${size} werden vom Server entfernt. Das lässt sich nicht rückgängig machen.`,
    emptyNow: "Der Papierkorb ist leer",
    goneAlready: "Jemand war schneller: Es liegt nicht mehr im Papierkorb.",
    more: "Mehr anzeigen",
    failed: "Der Papierkorb konnte nicht geladen werden",
  },
};
