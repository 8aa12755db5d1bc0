/** What all pages share, in German.

Glossary. Readers are not addressed (neither „du“ nor „Sie“): buttons are infinitives, sentences
speak of the thing.

| English              | German                    | English         | German                      |
|----------------------|---------------------------|-----------------|-----------------------------|
| media, recording     | Aufnahme                  | library         | Mediathek                   |
| item                 | Aufnahme, Eintrag         | collection      | Sammlung                    |
| encode, encoding     | umwandeln, Umwandlung     | tag             | Schlagwort                  |
| rendition, quality   | Qualitätsstufe, Qualität  | trash           | Papierkorb                  |
| transcript           | Transkript                | share, link     | teilen, Freigabelink        |
| transcribe           | transkribieren            | embed           | einbetten                   |
| captions             | Untertitel                | trim            | kürzen                      |
| passage              | Passage                   | overlay         | Einblendung                 |
| speaker              | Stimme                    | clip            | Ausschnitt                  |
| job                  | Auftrag                   | profile         | Profil                      |
| kind                 | Art                       | default         | Standard                    |
| attempt, try         | Versuch                   | limit           | Limit                       |
| queue                | Warteschlange             | space, quota    | Speicherplatz               |
| worker               | Worker                    | token, webhook  | Token (das), Webhook (der)  |
| lease                | Reservierung              | secret          | Signaturschlüssel           |
| drain                | auslaufen lassen          | sign in, out    | anmelden, abmelden          |
| housekeeping         | Hintergrundarbeit         | log             | Protokoll                   |
| to cancel a job      | abbrechen                 | alert           | Warnung                     | */
import { plural, type Translation } from "./language";
import type { t } from "./texts";

/** A span after a word that asks for the dative: „vor 4 Tagen“. */
export const dative = (span: string): string => span.replace(/Tage$/, "Tagen");

export const de: Translation<typeof t> = {
  app: {
    name: "Rushes",
    skip: "Zum Inhalt springen",
    nav: "Hauptmenü",
    library: "Mediathek",
    queue: "Warteschlange",
    workers: "Worker",
    settings: "Einstellungen",
    trash: "Papierkorb",
    docs: "API-Referenz",
    toTrash: "Papierkorb öffnen",
    account: "Konto",
    commands: "Befehle (Strg K)",
    signOut: "Abmelden",
    language: "Sprache",
    theme: "Farbschema",
    themes: { system: "Wie das System", light: "Hell", dark: "Dunkel" },
    lost: "Die Verbindung ist unterbrochen. Was hier steht, ist vielleicht veraltet. Neuer Versuch …",
    back: "Wieder verbunden.",
    tryNow: "Jetzt versuchen",
    loading: "Wird geladen …",
    missingTitle: "Seite nicht gefunden",
    missingText: "Die Adresse enthält vielleicht einen Tippfehler, oder was hier war, ist nicht mehr da.",
    toLibrary: "Zur Mediathek",
    notAllowedTitle: "Diese Seite ist für Admins",
    notAllowedText: "Weiterhelfen kann, wer diesen Server betreut.",
    cannotStart: "Rushes antwortet nicht",
    tryAgain: "Erneut versuchen",
  },
  problems: {
    offline: "Der Server antwortet nicht. Läuft er, und besteht eine Verbindung zum Netz?",
    unknown: (status) => `Der Server hat mit dem Fehler ${status} geantwortet.`,
    tooManyTries: "Zu viele falsche Versuche. In einer Viertelstunde geht es wieder.",
  },
  speech: {
    modelMissing: (size) => `nicht installiert, ${size} herunterzuladen`,
    asProfile: "Wie im Profil",
  },
  units: {
    seconds: (n) => `${n} s`,
    minutes: (n) => `${n} min`,
    hours: (h, m) => (m ? `${h} h ${m} min` : `${h} h`),
    days: (n) => plural(n, "Tag", "Tage"),
    ago: (span) => `vor ${dative(span)}`,
    justNow: "gerade eben",
    never: "nie",
  },
  common: {
    cancel: "Abbrechen",
    close: "Schließen",
    save: "Speichern",
    delete: "Löschen",
    undo: "Rückgängig",
    removeNamed: (name) => `„${name}“ entfernen`,
    copy: "Kopieren",
    copied: "Kopiert",
    more: "Mehr",
    retry: "Erneut versuchen",
    search: "Suchen",
    clear: "Leeren",
    all: "Alle",
    none: "Keine",
    yes: "Ja",
    no: "Nein",
    name: "Name",
    loadMore: "Mehr anzeigen",
    required: "Diese Angabe fehlt.",
    notRestored: (n) => `${plural(n, "Aufnahme ließ", "Aufnahmen ließen")} sich nicht wiederherstellen.`,
  },
  kinds: {
    transcode: "Umwandeln",
    trim: "Kürzen",
    composite: "Einblendung",
    prepare: "Beginn einer Umwandlung",
    span: "Teil einer Umwandlung",
    transcribe: "Transkribieren",
    export: "Exportieren",
    import: "Importieren",
    purge: "Aufräumen",
    webhook: "Webhook",
  },
  states: {
    blocked: "Wartet auf Vorgänger",
    queued: "Wartet",
    processing: "Läuft",
    completed: "Fertig",
    failed: "Fehlgeschlagen",
    canceled: "Abgebrochen",
  },
  badges: {
    waiting: "Umwandlung folgt",
    own: (label, percent) => `${label} ${percent}`,
    ownFailed: (label) => `${label} fehlgeschlagen`,
    starting: "Wird vorbereitet …",
    watchable: "Bereit zum Ansehen",
    moreQualities: (percent) => `weitere Qualitätsstufen ${percent}`,
    laterQualities: "weitere Qualitätsstufen später",
    encoding: (what) => `Umwandlung ${what}`.trim(),
    editing: { trim: "Wird gekürzt", composite: "Einblendung wird eingefügt" },
    finishing: "Gleich fertig …",
    left: (span) => `noch ${span}`,
    failed: "Umwandlung fehlgeschlagen",
    pendingTranscript: "Transkription folgt",
    transcribing: (percent) => `Transkription ${percent}`,
    retryTranscript: "Erneut transkribieren",
    noTranscript: (why) => (why ? `Kein Transkript: ${why}` : "Kein Transkript"),
    paused: "Wartet: Die Warteschlange ist angehalten",
  },
};
