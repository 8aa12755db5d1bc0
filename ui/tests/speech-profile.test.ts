import { describe, expect, it } from "vitest";
import type { TranscriptionProfile } from "../src/lib/api";
import { draftOf, EMPTY, missing, optionsOf, placeOf, summaryOf, type SpeechOptions } from "../src/settings/speechProfile";

const NOTHING: SpeechOptions = {
  model: null,
  language: null,
  diarize: null,
  speakers: null,
  min_speakers: null,
  max_speakers: null,
  track: null,
  task: null,
  prompt: null,
  vocabulary: null,
};
const profile = (said: Partial<SpeechOptions>): TranscriptionProfile => ({ ...NOTHING, ...said, name: "talks", created_at: "", updated_at: "" });
const name = (code: string) => (code === "de" ? "German" : code);

describe("transcription profile", () => {
  it.each<Partial<SpeechOptions>>([
    {},
    { diarize: false },
    { diarize: true },
    { diarize: true, speakers: 3 },
    { diarize: true, min_speakers: 2 },
    { diarize: true, max_speakers: 5 },
    { model: "whisper-base", language: "de", task: "translate", track: 2, prompt: "A talk.", vocabulary: ["Ada", "Grace"] },
  ])("comes back as it was: %j", (said) => {
    expect(optionsOf(draftOf(profile(said)))).toEqual({ ...NOTHING, ...said });
  });

  it("says what is missing or turned round", () => {
    expect(missing(EMPTY)).toEqual([]);
    expect(missing({ ...EMPTY, speakers: "number", count: null })).toMatchObject([{ field: "speakers" }]);
    expect(missing({ ...EMPTY, speakers: "range", least: null, most: null })).toMatchObject([{ field: "min_speakers" }]);
    expect(missing({ ...EMPTY, speakers: "range", least: 4, most: 2 })).toMatchObject([{ field: "max_speakers" }]);
    expect(missing({ ...EMPTY, speakers: "range", least: 4, most: null })).toEqual([]);
  });

  it("puts what is wrong with a term to the field of all terms", () => {
    expect(placeOf({ field: "vocabulary.1", message: "Too long." })).toEqual({ field: "vocabulary", message: "Term 2: Too long." });
  });

  it("is told in a line", () => {
    expect(summaryOf(NOTHING, name)).toBe("Everything as set on the server");
    const said = { ...NOTHING, model: "whisper-base", language: "de", diarize: true, min_speakers: 2, max_speakers: 4, vocabulary: ["Ada"] };
    expect(summaryOf(said, name)).toBe("whisper-base · German · 2 to 4 speakers · 1 term");
  });
});
