/** The API reference in German; what it lists is the server's and stays English. */
import { plural, type Translation } from "../lib/language";
import type { t } from "./texts";

export const de: Translation<Pick<typeof t, "docs">> = {
  docs: {
    title: "API-Referenz",
    lead: "Was diese Seiten können, können auch eigene Programme. Dazu ein eigenes Token als „Authorization: Bearer TOKEN“ mitschicken; Fehler kommen als application/problem+json mit einem festen Code.",
    tokens: "Token erstellen",
    document: "openapi.json",
    nouns: "Ressourcen",
    search: "Route suchen",
    searchHint: "Route suchen, etwa upload oder transcript",
    count: (n) => plural(n, "Route", "Routen"),
    none: (words) => `Keine Route passt zu „${words}“.`,
    failed: "Die Referenz konnte nicht geladen werden",
    roles: { public: "Für alle, ohne Token.", user: "Für alle mit einem Token.", admin: "Für Admins.", worker: "Für Worker, mit ihrem Schlüssel." },
    parameters: "Parameter",
    body: "Inhalt",
    answers: "Antworten",
    example: "Ausprobieren",
    copy: "Befehl kopieren",
    name: "Name",
    type: "Typ",
    meaning: "Beschreibung",
    required: "nötig",
    places: { path: "im Pfad", query: "in der Abfrage", header: "Header", cookie: "Cookie" },
    groups: { openai: "API von OpenAI", "worker protocol": "Worker-Protokoll" },
  },
};
