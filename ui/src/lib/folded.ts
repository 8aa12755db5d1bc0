/** The same for what people hold to be the same: capitals, ligatures, full-width letters. As the server does. */
export function folded(text: string): string {
  return text.normalize("NFKC").toLowerCase();
}
