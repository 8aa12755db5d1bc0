/** The words of the command palette. */
import { translatable } from "../lib/language";
import { t as shared } from "../lib/texts";

const palette = {
  title: "Command palette",
  hint: "Type a command, a page or a title",
  found: (n: number) => (n === 1 ? "1 result" : `${n} results`),
  nothing: "Nothing found. Try different words.",
  groups: { page: "This page", go: "Go to", do: "Do", collection: "Collections", saved: "My filters", media: "Recordings", search: "Search" },
  searchFor: (words: string) => `Search for “${words}” in titles and speech`,
  upload: "Upload files",
  uploadFolder: "Upload a folder",
  uploadOptions: "Upload options",
  newCollection: "New collection",
  asGrid: "Show the library as a grid",
  asList: "Show the library as a list",
  theme: (name: string) => `Theme: ${name}`,
  settings: (section: string) => `Settings: ${section}`,
  language: (name: string) => `Language: ${name}`,
  /** What else people may type for it. */
  also: { queue: "jobs", trash: "deleted", api: "openai", upload: "add", theme: "theme mode", signOut: "log out" },
};

export const t = { ...shared, ...translatable({ palette }) };
