import { afterEach, describe, expect, it, vi } from "vitest";
import german from "../src/de";

type Leaf = string | ((...given: unknown[]) => string);

const english = Object.assign({}, ...Object.values(import.meta.glob("../src/*/texts.ts", { eager: true, import: "t" }))) as object;

/** What both languages write the same: names, codes, units, and words that German has taken in. */
const SAME = new Set([
  ...["Rushes", "Rushes 111", "openapi.json", "rushes users link NAME"],
  ...["Admin", "Audio", "Format", "ID", "Limits", "Live", "Name", "Normal", "Server", "Token", "Uploads", "Video", "Webhooks", "Worker"],
  ...["Audio (M4A)", "Audio (MP3)", "Video (MP4)", "Markdown", "Text (Markdown)", "Text (TXT)", "Text (Word)"],
  ...["AV1", "H.264", "HEVC (H.265)", "Codecs", "Encoder", "Apple (VideoToolbox)", "Intel (Quick Sync)", "NVIDIA (NVENC)", "VAAPI"],
  ...["CPU", "GPU", "NVENC", "Quick Sync", "VA-API", "VideoToolbox", "PostgreSQL", "SQLite", "Redis"],
  ...["10", "10min", "22:00-06:00", "50GB", "transcode=1,transcribe=2"],
  ...["111 s", "+111 s", "111 min", "111 h 222 min", "111/s", "1 h", "6 h", "24 h"],
  ...["111 (222)", "111 222", "111: 222", "111: 222.", "111 · 222", "111 · 222 · 333", ""],
]);

/** Every text by its path, such as "player.sizes.small" or "welcome.lines.0.title". */
function leaves(of: object, path = ""): Map<string, Leaf> {
  const found = new Map<string, Leaf>();
  for (const [key, value] of Object.entries(of)) {
    const at = path ? `${path}.${key}` : key;
    if (typeof value === "object") for (const [deeper, leaf] of leaves(value, at)) found.set(deeper, leaf);
    else found.set(at, value);
  }
  return found;
}

/** A text with numbers, or with words where it wants words; nothing where it wants more than that. */
function said(leaf: Leaf, given: (string | number)[]): string {
  if (typeof leaf === "string") return leaf;
  try {
    return leaf(...given);
  } catch {
    return leaf(...given.map(String));
  }
}

const ours = leaves(english);
const theirs = leaves(german);
/** In English kinds are called as the server calls them. */
const shared = [...theirs.keys()].filter((path) => !path.startsWith("kinds."));
const GIVEN = [111, 222, 333];

describe("German", () => {
  it("has a text for each of the English, and no other", () => {
    expect(shared.toSorted()).toEqual([...ours.keys()].toSorted());
  });

  it("takes what the English takes", () => {
    const lengths = (of: Map<string, Leaf>) => Object.fromEntries(shared.map((path) => [path, (of.get(path) as Leaf).length]).filter(([path]) => typeof ours.get(path as string) === "function"));
    expect(lengths(theirs)).toEqual(lengths(ours));
  });

  it.each(shared.filter((path) => typeof ours.get(path) === "function"))("tells as much as the English: %s", (path) => {
    const shown = (leaf: Leaf) => GIVEN.filter((each) => said(leaf, GIVEN).includes(String(each)));
    expect(shown(theirs.get(path)!)).toEqual(shown(ours.get(path)!));
  });

  it("differs from the English, but for what both write the same", () => {
    const equal = shared.filter((path) => said(ours.get(path)!, GIVEN) === said(theirs.get(path)!, GIVEN));
    // Keys of a keyboard have one letter.
    const words = equal.map((path) => said(ours.get(path)!, GIVEN)).filter((each) => each.length !== 1);
    expect([...new Set(words)].toSorted()).toEqual([...SAME].toSorted());
  });

  it("uses its own quotes, and a space before an ellipsis that stands for words", () => {
    const wrong = shared.filter((path) => /“[^„]*”|‘|"|[a-zäöü]…/.test(said(theirs.get(path)!, GIVEN)));
    expect(wrong).toEqual([]);
  });
});

describe("the language of a page", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.resetModules();
  });

  async function opened(languages: string[], kept: string | null = null) {
    vi.resetModules();
    vi.stubGlobal("document", { documentElement: { lang: "en" } });
    vi.stubGlobal("navigator", { languages });
    vi.stubGlobal("localStorage", { getItem: () => kept });
    return import("../src/lib/language");
  }

  it.each([
    [["de-CH", "en"], null, "de", "de-CH"],
    [["fr", "de", "en"], null, "de", "de"],
    [["en-GB", "de"], null, "en", "en-GB"],
    [["fr"], null, "en", "en"],
    [[], null, "en", "en"],
    [["en-US"], "de", "de", "de"],
    [["de-AT"], "en", "en", "en"],
    [["de"], "tlh", "de", "de"],
    [["constructor"], "toString", "en", "en"],
  ] as const)("for a browser with %j and the choice %j is %s, in %s", async (languages, kept, language, locale) => {
    const found = await opened([...languages], kept);
    expect([found.language, found.locale]).toEqual([language, locale]);
  });

  it("can be told without storage", async () => {
    await opened(["de"]);
    vi.stubGlobal("localStorage", { getItem: () => { throw new DOMException("no"); } });
    vi.resetModules();
    expect((await import("../src/lib/language")).language).toBe("de");
  });

  it("gives its words to what was there before and to what comes later", async () => {
    const { translatable, translate } = await opened(["de"]);
    const before = translatable({ one: { word: "word", deep: { words: ["a", "b"] }, said: (n: number) => `${n} words` } });
    const { one } = before;
    await translate({ de: async () => ({ default: { one: { word: "Wort", deep: { words: ["x"] }, said: (n: number) => `${n} Wörter` }, two: { late: "spät" } } }) });
    expect([one.word, one.deep.words, one.said(2), document.documentElement.lang]).toEqual(["Wort", ["x"], "2 Wörter", "de"]);
    expect(translatable({ two: { late: "late" } }).two.late).toBe("spät");
  });

  it("is English where the words cannot be had", async () => {
    const { translatable, translate } = await opened(["de"]);
    const { one } = translatable({ one: { word: "word" } });
    await translate({ de: () => Promise.reject(new TypeError("offline")) });
    expect([one.word, document.documentElement.lang]).toEqual(["word", "en"]);
  });

  it("fetches nothing for who reads English", async () => {
    const load = vi.fn();
    await (await opened(["en"])).translate({ de: load });
    expect(load).not.toHaveBeenCalled();
  });

  it("writes numbers and dates its own way", async () => {
    const { formatNumber, plural } = await opened(["de-DE"]);
    expect([formatNumber(12345.5), formatNumber(3, 1), plural(1, "Auftrag", "Aufträge"), plural(1200, "Auftrag", "Aufträge")]).toEqual(["12.345,5", "3,0", "1 Auftrag", "1.200 Aufträge"]);
    const { bytes, date, speed } = await import("../src/lib/format");
    expect([bytes(1_500_000), speed(2.25), date("2026-11-05T12:00:00Z")]).toEqual(["1,5 MB", "2,3×", "5. Nov. 2026"]);
  });
});
