/** Light, dark, or what the system prefers. */
export type Theme = "system" | "light" | "dark";

class ThemeState {
  chosen = $state<Theme>(read());

  choose(theme: Theme): void {
    this.chosen = theme;
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    try {
      localStorage.setItem("rushes.theme", theme);
    } catch {
      // It counts until the page is closed.
    }
  }
}

function read(): Theme {
  const set = typeof document === "undefined" ? undefined : document.documentElement.dataset["theme"];
  return set === "light" || set === "dark" ? set : "system";
}

export const theme = new ThemeState();
