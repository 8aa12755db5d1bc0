/** Small habits of one reader, kept by the browser. */
export function remembered(name: string, otherwise: string): string {
  try {
    return localStorage.getItem(`rushes.queue.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`rushes.queue.${name}`, value);
  } catch {
    // It counts until the page is closed.
  }
}
