/** Small pictures for each moment, as places on larger sheets. Pure. */
import { lastBegun, parseVtt } from "./vtt";

export interface Tile {
  start: number;
  end: number;
  url: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

const PLACE = /^(.+)#xywh=(\d+),(\d+),(\d+),(\d+)$/;

/** `base`: where the track itself was found, since it names its pictures from there. */
export function parseStoryboard(text: string, base: string): Tile[] {
  return parseVtt(text).flatMap((cue) => {
    const place = PLACE.exec(cue.text.trim());
    if (!place) return [];
    const [x, y, width, height] = place.slice(2).map(Number) as [number, number, number, number];
    const url = new URL(place[1]!, base);
    // What a track names elsewhere is nothing of ours.
    if (url.origin !== new URL(base).origin || !width || !height) return [];
    return [{ start: cue.start, end: cue.end, url: url.href, x, y, width, height }];
  });
}

export function tileAt(tiles: Tile[], time: number): Tile | undefined {
  return tiles[Math.max(0, lastBegun(tiles, time))];
}
