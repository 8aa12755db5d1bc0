/** What belongs to a version beside its stream: captions, chapters, small pictures, the waveform. */
import { textsOf, type Texts } from "./manifest";
import { parseStoryboard, type Tile } from "./storyboard";
import { parseVtt, type Cue } from "./vtt";
import { peaksOf } from "./waveform";

export interface Has {
  storyboard: boolean;
  chapters: boolean;
  waveform: boolean;
}

type Name = keyof Has;

export class Extras {
  cues = $state.raw<Cue[]>([]);
  /** What there is to read along, and the file of the one that is shown. */
  texts = $state.raw<Texts[]>([]);
  chosen = $state<string>();
  tiles = $state.raw<Tile[]>([]);
  chapters = $state.raw<Cue[]>([]);
  peaks = $state.raw<number[]>([]);

  private base = "";
  private read = new Set<Name>();

  /** `url` and `text`: of the master playlist of the version that is played. Whatever cannot be had
  is left as it is. */
  async follow(url: string, text: string, has: Has): Promise<void> {
    const base = new URL(".", url).href;
    if (base !== this.base) this.clear(base);
    const names = (Object.keys(has) as Name[]).filter((name) => has[name] && !this.read.has(name));
    await Promise.all([this.readCaptions(text), ...names.map((name) => this.readOnce(name))]);
  }

  private clear(base: string): void {
    this.base = base;
    this.read.clear();
    Object.assign(this, { cues: [], texts: [], chosen: undefined, tiles: [], chapters: [], peaks: [] });
  }

  private async readCaptions(master: string): Promise<void> {
    const texts = textsOf(master);
    const wanted = texts.find((each) => each.file === this.chosen) ?? texts[0];
    if (!wanted) {
      Object.assign(this, { cues: [], texts: [], chosen: undefined });
      return;
    }
    if (await this.readTexts(wanted.file)) this.texts = texts;
  }

  async chooseTexts(file: string): Promise<void> {
    await this.readTexts(file);
  }

  private async readTexts(file: string): Promise<boolean> {
    const found = await this.fetch(file);
    if (!found) return false;
    this.cues = parseVtt(found.text);
    this.chosen = file;
    return true;
  }

  private async readOnce(name: Name): Promise<void> {
    this.read.add(name);
    const found = await this.fetch(name === "waveform" ? "waveform.json" : `${name}.vtt`);
    if (!found) {
      this.read.delete(name);
      return;
    }
    if (name === "storyboard") this.tiles = parseStoryboard(found.text, found.url);
    else if (name === "chapters") this.chapters = parseVtt(found.text);
    else this.peaks = peaksOf(found.text);
  }

  private async fetch(name: string): Promise<{ text: string; url: string } | undefined> {
    const base = this.base;
    try {
      const answer = await fetch(base + name);
      const text = answer.ok ? await answer.text() : undefined;
      // Another version may have been opened meanwhile.
      return text !== undefined && base === this.base ? { text, url: answer.url } : undefined;
    } catch {
      return undefined;
    }
  }
}
