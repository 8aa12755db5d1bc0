/** Signing in and the first visit in German. */
import type { Translation } from "../lib/language";
import type { t } from "./texts";

export const de: Translation<Pick<typeof t, "signIn" | "welcome">> = {
  signIn: {
    title: "Anmelden",
    goOn: "Nach der Anmeldung geht es weiter, wo es aufgehört hat.",
    name: "Name",
    password: "Passwort",
    submit: "Anmelden",
    wrong: "Der Name oder das Passwort ist falsch.",
    missing: "Name und Passwort eingeben.",
    usedLink: "Dieser Link gilt nicht mehr",
    usedLinkText: "Jeder meldet ein einziges Mal an, innerhalb eines Tages. Mit dem Passwort anmelden oder einen neuen Link besorgen.",
    byLink: "Dieser Link meldet an, ein einziges Mal.",
    already: "Schon angemeldet: Der Link wurde nicht verbraucht.",
    noPassword: "Kein Passwort oder vergessen?",
    linkText: "Beim ersten Start gibt Rushes einen Link aus, der anmeldet. Einen neuen erstellt auf der Befehlszeile des Servers:",
    command: "rushes users link NAME",
    commandLabel: "Befehl, der einen neuen Link erstellt",
    linkHint: "NAME ist der eigene; der erste heißt admin. Auch ein Admin kann einen Link schicken. Danach lässt sich ein neues Passwort setzen.",
  },
  welcome: {
    title: "Willkommen",
    hello: (name) => `Willkommen, ${name}`,
    step: (at, of) => `${at} von ${of}`,
    passwordTitle: "Passwort wählen",
    passwordText: "Bis es eines gibt, meldet nur ein frischer Link an. Mit einem Passwort geht es jederzeit.",
    set: "Passwort setzen",
    skip: "Vorerst überspringen",
    readyTitle: "Die erste Aufnahme hinzufügen",
    readyText: "Eine Video- oder Tondatei hierher ziehen oder auswählen. Danach:",
    lines: [
      { title: "In Sekunden ansehen", text: "Sie läuft schon, während die übrigen Größen noch entstehen." },
      { title: "Lesen, was gesagt wird", text: "Untertitel und Transkript kommen von selbst, auf diesem Server." },
      { title: "Jedes Wort finden", text: "Die Suche führt auf die Sekunde genau dorthin." },
    ],
    choose: "Datei auswählen",
    toLibrary: "Zur Mediathek",
  },
};
