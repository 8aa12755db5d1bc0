import { expect, test } from "vitest";
import "./known-kinds";
import type { Job, Media, Profile, SpeechModel } from "../src/lib/api";
import { Problem } from "../src/lib/api";
import { closedBy, visitOf } from "../src/watch/shared.svelte";
import { endOf, fieldOf, linkAt } from "../src/watch/sharing";
import { milliseconds, precise, written } from "../src/watch/times";
import { languagesOf, termsOf, vocabularyFits } from "../src/lib/speech";
import { exportBody, exportProblem, qualitiesToMake, speechBody, type ExportChoice } from "../src/watch/options";
import { failuresOf, lastMaking } from "../src/watch/work.svelte";

const job = (id: string, kind: string, state: string) => ({ id, kind, state }) as Job;

test("only the last of each sort counts as failed", () => {
  const recent = [job("5", "transcribe", "failed"), job("4", "trim", "completed"), job("3", "transcode", "failed")];
  expect(failuresOf(recent).map((each) => each.id)).toEqual(["5"]);
  expect(failuresOf([job("6", "transcode", "queued"), ...recent.slice(2)])).toEqual([]);
  expect(failuresOf([job("6", "composite", "failed")]).map((each) => each.id)).toEqual(["6"]);
  expect(failuresOf([job("6", "acme.summarize", "failed")])).toEqual([]);
  expect(lastMaking(recent, "watch")?.id).toBe("4");
  expect(failuresOf([])).toEqual([]);
});

test("times to a tenth, and back", () => {
  expect(precise(83.46)).toBe("1:23.5");
  expect(precise(59.97)).toBe("1:00.0");
  expect(precise(3661)).toBe("1:01:01.0");
  expect(written(" 1:23,5 ")).toBe(83.5);
  expect(written("12")).toBe(12);
  expect(written("soon")).toBeUndefined();
  expect(milliseconds(1.23456)).toBe(1.235);
});

const media = (more: Partial<Media>) => ({ kind: "video", width: 1280, height: 720, renditions: [], ...more }) as Media;
const profile = { name: "p", codecs: ["av1", "h264"], ladder: [{ height: 1080, bitrate: 1 }, { height: 720, bitrate: 1 }, { height: 360, bitrate: 1 }] } as Profile;

test("qualities are those that were made, or those a profile would make", () => {
  const renditions = [{ name: "1080p", status: "skipped" }, { name: "720p", status: "completed" }, { name: "original", status: "completed" }, { name: "audio", status: "completed" }];
  expect(qualitiesToMake(media({ renditions: renditions as Media["renditions"] }), undefined)).toEqual(["720p"]);
  expect(qualitiesToMake(media({}), profile)).toEqual(["720p", "360p", "720p-av1", "360p-av1"]);
  expect(qualitiesToMake(media({ width: 720, height: 1280 }), profile)).toEqual(["720p", "360p", "720p-av1", "360p-av1"]);
  expect(qualitiesToMake(media({ kind: "audio" }), profile)).toEqual([]);
  expect(qualitiesToMake(media({ width: null, height: null }), profile)).toHaveLength(6);
});

const model = (id: string, languages: string[], isDefault = false) => ({ id, languages, default: isDefault }) as SpeechModel;

test("languages are those of the model that is meant", () => {
  const models = [model("tiny.en", ["en"]), model("base", ["de", "en"], true), model("remote", [])];
  const name = (code: string) => ({ en: "English", de: "German" })[code] ?? code;
  expect(languagesOf(models, "tiny.en", name)).toEqual([["en", "English"]]);
  expect(languagesOf(models, "", name).map(([code]) => code)).toEqual(["en", "de"]);
  expect(languagesOf(models, "remote", name).map(([code]) => code)).toEqual(["en", "de"]);
  expect(languagesOf([], "", name)).toEqual([]);
});

test("options of a transcription as the server takes them", () => {
  const options = { profile: "", model: "", language: "", speakers: "none", count: 2, translate: false, vocabulary: "" } as const;
  expect(speechBody(options)).toEqual({ profile: null, model: null, language: null, diarize: false, speakers: null, task: "transcribe", vocabulary: null });
  expect(speechBody({ ...options, speakers: "number", count: 3, translate: true, vocabulary: "Ada\n Grace, Ada" })).toMatchObject({
    diarize: true,
    speakers: 3,
    task: "translate",
    vocabulary: ["Ada", "Grace"],
  });
  expect(speechBody({ ...options, speakers: "find" })).toMatchObject({ diarize: true, speakers: null });
  expect(speechBody({ ...options, profile: "talks", speakers: "" })).toMatchObject({ profile: "talks", diarize: null, speakers: null });
  expect(termsOf("\n\n,")).toEqual([]);
  expect(vocabularyFits("x".repeat(101))).toBe(false);
  expect(vocabularyFits(Array.from({ length: 101 }, (_, n) => `w${n}`).join("\n"))).toBe(false);
});

test("when a link ends, as the server takes it", () => {
  const now = Date.parse("2030-05-01T12:00:00Z");
  expect(endOf("kept", "", now)).toEqual({});
  expect(endOf("never", "", now)).toEqual({ expires_at: null });
  expect(endOf("7", "", now)).toEqual({ expires_in: 7 * 86_400 });
  expect(endOf("date", fieldOf(now + 3_600_000), now)).toEqual({ expires_at: "2030-05-01T13:00:00.000Z" });
  expect(endOf("date", fieldOf(now - 60_000), now)).toBeNull();
  expect(endOf("date", "", now)).toBeNull();
});

test("a link begins at a second, or at the beginning", () => {
  expect(linkAt("https://a/s/x", 83.9)).toBe("https://a/s/x?t=83");
  expect(linkAt("https://a/s/x", 0.4)).toBe("https://a/s/x");
});

test("what keeps a link closed", () => {
  const problem = (status: number, code: string) => new Problem("", status, code);
  expect(closedBy(problem(401, "link_locked"))).toBe("locked");
  expect(closedBy(problem(410, "link_expired"))).toBe("expired");
  expect(closedBy(problem(404, "not_found"))).toBe("dead");
  expect(closedBy(problem(503, "unavailable"))).toBeNull();
});

test("a visit is the same in its tab", () => {
  const kept = new Map<string, string>();
  const store = { getItem: (name: string) => kept.get(name) ?? null, setItem: (name: string, value: string) => void kept.set(name, value) };
  const visit = visitOf(store);
  expect(visit).toMatch(/^[0-9a-f]{32}$/);
  expect(visitOf(store)).toBe(visit);
});

test("what is exported is what was chosen, and nothing that does not go with it", () => {
  const choice: ExportChoice = { format: "mp4", rendition: "", isClip: false, start: "0:10", end: "0:20", captions: false, exact: true };
  const whole = { format: "mp4", rendition: null, start: 0, end: null, burn_captions: false, exact: false };
  expect(exportBody(choice, 60)).toEqual(whole);
  expect(exportBody({ ...choice, isClip: true, captions: true }, 60)).toEqual({ ...whole, start: 10, end: 20, burn_captions: true, exact: true });
  expect(exportBody({ ...choice, isClip: true, end: "1:00.0" }, 60.04).end).toBeNull();
  expect(exportBody({ ...choice, format: "mp3", rendition: "720p", captions: true }, 60)).toEqual({ ...whole, format: "mp3" });
});

test("a part that cannot be is told on its side", () => {
  expect(exportProblem(1, 2, 60)).toBeNull();
  expect(exportProblem(undefined, 2, 60)?.side).toBe("start");
  expect(exportProblem(1, undefined, 60)?.side).toBe("end");
  expect(exportProblem(2, 1, 60)?.side).toBe("end");
  expect(exportProblem(61, 62, 60)?.side).toBe("start");
  expect(exportProblem(1, 62, 60)?.side).toBe("end");
});
