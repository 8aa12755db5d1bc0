/** The master playlist of what can be watched now. */
export interface Master {
  /** With the version in it: what is played from there stays the same, whatever is published. */
  url: string;
  text: string;
}

export async function readMaster(src: string): Promise<Master | "gone" | "network"> {
  try {
    const answer = await fetch(src);
    if (answer.ok) return { url: answer.url, text: await answer.text() };
    return answer.status < 500 ? "gone" : "network";
  } catch {
    return "network";
  }
}
