import { describe, expect, it } from "vitest";
import { gather, isMedia } from "../src/uploads/files";
import { languages } from "../src/uploads/languages";
import { Pace, timeLeft } from "../src/uploads/pace";
import { RETRY_DELAYS, sentence, settles, verdict } from "../src/uploads/refusal";
import { markOf, notes } from "../src/uploads/unfinished";
import { fingerprint } from "../src/uploads/upload.svelte";
import { metadataOf, optionsOf } from "../src/uploads/options.svelte";

describe("pace", () => {
  it("is the mean of the last seconds", () => {
    const pace = new Pace();
    for (let second = 0; second <= 20; second++) pace.push(second < 10 ? second * 100 : 1000 + (second - 10) * 500, second * 1000);
    expect(pace.speed).toBeCloseTo(500, -1);
  });

  it("is not told too early, nor after a step back", () => {
    const pace = new Pace();
    pace.push(0, 0);
    pace.push(100, 100);
    expect(pace.speed).toBe(0);
    pace.push(1000, 1000);
    expect(pace.speed).toBe(1000);
    pace.push(500, 1100);
    expect(pace.speed).toBe(0);
  });

  it("tells how long it takes, if it can", () => {
    expect(timeLeft(1000, 100)).toBe(10);
    expect(timeLeft(1000, 0)).toBeUndefined();
    expect(timeLeft(0, 10)).toBeUndefined();
  });
});

describe("refusals", () => {
  it.each([
    [0, "again"],
    [409, "again"],
    [423, "again"],
    [503, "again"],
    [502, "again"],
    [507, "stop"],
    [413, "stop"],
    [415, "stop"],
    [422, "stop"],
    [401, "signed-out"],
  ])("%i: %s", (status, what) => expect(verdict(status)).toBe(what));

  it("waits longer and longer, for days", () => {
    expect(RETRY_DELAYS[0]).toBeLessThan(1000);
    expect(Math.max(...RETRY_DELAYS)).toBe(30_000);
    expect(RETRY_DELAYS.reduce((a, b) => a + b) / 86_400_000).toBeGreaterThan(5);
  });

  it("begins anew only when the upload is surely gone", () => {
    expect([200, 404, 410, 423].every(settles)).toBe(true);
    expect([401, 403, 429, 500, 502, 503].some(settles)).toBe(false);
  });

  it("says what the server says, as a sentence", () => {
    expect(sentence(415, '{"detail":"this is a PDF, not a video or audio file"}')).toBe("This is a PDF, not a video or audio file.");
    expect(sentence(502, "<html>")).toBe("The server answered with error 502.");
  });
});

describe("files", () => {
  it("knows media by type or name", () => {
    expect(isMedia({ name: "a.bin", type: "video/x" })).toBe(true);
    expect(isMedia({ name: "A.MKV", type: "" })).toBe(true);
    expect(isMedia({ name: "notes.txt", type: "text/plain" })).toBe(false);
    expect(isMedia({ name: "._a.mov", type: "video/quicktime" })).toBe(false);
  });

  it("walks folders, however many answers that takes", async () => {
    const file = (name: string) => ({ isFile: true, isDirectory: false, name, file: (done: (file: File) => void) => done(new File(["x"], name)) });
    const folder = (name: string, pages: unknown[][]) => ({
      isFile: false,
      isDirectory: true,
      name,
      createReader: () => {
        const left = [...pages];
        return { readEntries: (done: (entries: unknown[]) => void) => done(left.shift() ?? []) };
      },
    });
    const tree = folder("top", [[file("b.mp4"), file("a.mov")], [folder("inner", [[file("c.wav"), file("d.txt")]])]]);
    const given = await gather([tree as unknown as FileSystemEntry, new File(["x"], "e.txt")]);
    expect(given.files.map((each) => each.name)).toEqual(["a.mov", "b.mp4", "c.wav", "e.txt"]);
    expect(given.leftOut).toBe(1);
    expect(given.files.map((each) => given.folders?.get(each))).toEqual(["top", "top", "top/inner", undefined]);
  });
});

describe("options", () => {
  it("are plain without a memory, or with a broken one", () => {
    const plain = { transcribe: true, language: "", diarize: "", profile: "", speechProfile: "" };
    for (const text of [null, "", "nonsense", "null", "[]", '{"diarize":7,"language":{}}']) expect(optionsOf(text)).toEqual(plain);
  });

  it("are told in words the server knows", () => {
    const file = { name: "a.mp4", type: "video/mp4" };
    const all = metadataOf(file, { transcribe: true, language: "de", diarize: "no", profile: "small", speechProfile: "talks" });
    expect(all).toEqual({ filename: "a.mp4", filetype: "video/mp4", transcribe: "true", language: "de", diarize: "false", profile: "small", transcription_profile: "talks" });
    const none = metadataOf({ name: "b", type: "" }, { transcribe: false, language: "de", diarize: "yes", profile: "", speechProfile: "talks" });
    expect(none).toEqual({ filename: "b", transcribe: "false" });
  });
});

describe("unfinished uploads", () => {
  const file = { name: "a::b.mp4", size: 7, lastModified: 5 };
  const key = `tus::${fingerprint("usr_1", file)}::123`;
  const kept: Record<string, string> = {
    [key]: JSON.stringify({ size: 7, uploadUrl: "/u/1", metadata: { filename: "a::b.mp4" }, creationTime: new Date().toString() }),
    [`tus::${fingerprint("usr_2", file)}::1`]: JSON.stringify({ size: 7, uploadUrl: "/u/2" }),
    "tus::rushes-usr_1-broken::1": "{",
    "rushes.theme": "dark",
  };
  const storage = { length: Object.keys(kept).length, key: (at: number) => Object.keys(kept)[at]!, getItem: (name: string) => kept[name]! };

  it("are those of the same user", () => {
    expect(notes(storage, "usr_1")).toEqual([{ key, url: "/u/1", name: "a::b.mp4", size: 7 }]);
  });

  it("are known again by the file", () => expect(markOf(key)).toBe(fingerprint("usr_1", file)));
});

it("languages are sorted as they are read", () => {
  expect(languages(["de", "en", "xx-broken-"], "en").map((each) => each.name)).toEqual(["English", "German", "xx-broken-"]);
  expect(languages([]).length).toBeGreaterThan(10);
});
