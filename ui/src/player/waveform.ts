/** The sound, as the server tells it and as it is drawn. Pure. */

export function peaksOf(text: string): number[] {
  try {
    const said: unknown = JSON.parse(text).peaks;
    return Array.isArray(said) ? said.filter((each): each is number => typeof each === "number") : [];
  } catch {
    return [];
  }
}

/** As many bars as fit, each as tall as the loudest of its part. Quiet recordings are shown larger. */
export function barsOf(peaks: number[], count: number): number[] {
  if (!peaks.length || count < 1) return [];
  const loudest = peaks.reduce((most, each) => Math.max(most, each), 0);
  // What is almost silent stays almost flat.
  const scale = 1 / Math.max(loudest, 0.05);
  return Array.from({ length: count }, (_, at) => {
    const from = Math.floor((at * peaks.length) / count);
    const until = Math.max(from + 1, Math.floor(((at + 1) * peaks.length) / count));
    let most = 0;
    for (let each = from; each < until; each += 1) most = Math.max(most, peaks[each] ?? 0);
    return Math.min(1, most * scale);
  });
}
