/** Takes a text along, also where the clipboard is for secure pages only. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "visually-hidden";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}
