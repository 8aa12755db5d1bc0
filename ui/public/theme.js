// Before anything is painted, so that a page never flashes in the wrong colours.
try {
  const chosen = localStorage.getItem("rushes.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Without storage the system's preference counts.
}
