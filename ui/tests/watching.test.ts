import { expect, test } from "vitest";
import "./known-kinds";
import type { Job, Media, Profile, SpeechModel } from "../src/lib/api";
import { milliseconds, precise, written } from "../src/watch/times";
import { languagesOf, termsOf, vocabularyFits } from "../src/lib/speech";
import { qualitiesToMake, speechBody } from "../src/watch/options";
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
