/** The parts of the settings, and who sees them. Pure. */
export interface Section {
  id: string;
  admin: boolean;
}

export const sections: readonly Section[] = [
  { id: "account", admin: false },
  { id: "tokens", admin: false },
  { id: "webhooks", admin: false },
  { id: "profiles", admin: true },
  { id: "transcription", admin: true },
  { id: "models", admin: true },
  { id: "limits", admin: true },
  { id: "users", admin: true },
  { id: "security", admin: true },
  { id: "health", admin: true },
  { id: "server", admin: true },
];

export function shownTo(isAdmin: boolean): Section[] {
  return sections.filter((each) => isAdmin || !each.admin);
}

/** What an address asks for; without a name the first one. */
export function sectionOf(name: string | undefined): Section | undefined {
  return name === undefined ? sections[0] : sections.find((each) => each.id === name);
}
