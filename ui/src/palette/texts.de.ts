/** The command palette in German. */
import { plural, type Translation } from "../lib/language";
import type { t } from "./texts";

export const de: Translation<Pick<typeof t, "palette">> = {
  palette: {
    title: "Befehlspalette",
    hint: "Befehl, Seite oder Titel eingeben",
    found: (n) => plural(n, "Ergebnis", "Ergebnisse"),
    nothing: "Nichts gefunden. Vielleicht helfen andere Wörter.",
    groups: { page: "Diese Seite", go: "Gehe zu", do: "Tun", collection: "Sammlungen", saved: "Meine Filter", media: "Aufnahmen", search: "Suche" },
    searchFor: (words) => `„${words}“ in Titeln und Gesprochenem suchen`,
    upload: "Dateien hochladen",
    uploadFolder: "Ordner hochladen",
    uploadOptions: "Optionen zum Hochladen",
    newCollection: "Neue Sammlung",
    asGrid: "Mediathek als Raster anzeigen",
    asList: "Mediathek als Liste anzeigen",
    theme: (name) => `Farbschema: ${name}`,
    settings: (section) => `Einstellungen: ${section}`,
    language: (name) => `Sprache: ${name}`,
    also: { queue: "Aufträge Jobs", trash: "gelöscht", api: "OpenAI Schnittstelle", upload: "hinzufügen Upload", theme: "Farben Modus Design", signOut: "ausloggen Logout" },
  },
};
