/** Typed calls to the server, and what can go wrong with them. */
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";
import { t } from "./texts";

export type { components };
type Schemas = components["schemas"];
export type Media = Schemas["Media"];
export type Export = Schemas["Export"];
export type Kind = Schemas["Kind"];
export type Job = Schemas["Job"];
export type Rendition = Schemas["Rendition"];
export type Execution = Schemas["Execution"];
export type Worker = Schemas["Worker"];
export type Me = Schemas["Me"];
export type Moment = Schemas["Moment"];
export type Transcript = Schemas["Transcript"];
export type TranscriptInfo = Schemas["TranscriptInfo"];
export type TranscriptSegment = Schemas["TranscriptSegment"];
export type TranscriptWord = Schemas["TranscriptWord"];
export type TranscriptMerge = Schemas["TranscriptMerge"];
export type TranscriptRevision = Schemas["TranscriptRevision"];
export type SpeechModel = Schemas["SpeechModel"];
export type Profile = Schemas["Profile"];
export type TranscriptionProfile = Schemas["TranscriptionProfile"];
export type QueueStats = Schemas["QueueStats"];
export type SecurityEntry = Schemas["SecurityEntry"];
export type Session = Schemas["Session"];
export type Token = Schemas["Token"];
export type User = Schemas["User"];
export type Webhook = Schemas["Webhook"];
export type Delivery = Schemas["Delivery"];
export type SharedMedia = Schemas["SharedMedia"];
export type SharedTranscript = Schemas["SharedTranscript"];
export type ShareLink = Schemas["ShareLinkInfo"];
export type ClipLink = Schemas["ClipLink"];
export type ShareTerms = Schemas["ShareTerms"];

export interface FieldError {
  field: string;
  message: string;
}

/** An answer that was not what we asked for. `message` is a sentence for people. */
export class Problem extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly fields: FieldError[] = [],
  ) {
    super(message);
  }

  /** Nothing answered: the server or the network is away for now. */
  get isOffline(): boolean {
    return this.status === 0;
  }
}

let onSignedOut: () => void = () => {};

/** Called whenever the server no longer knows who we are. */
export function whenSignedOut(call: () => void): void {
  onSignedOut = call;
}

/** For those who do not ask through `ok`. */
export function signedOut(): void {
  onSignedOut();
}

export const api = createClient<paths>({ baseUrl: "" });

/** A share link that is locked says nothing about who is signed in. */
const OF_A_LINK = ["link_locked", "wrong_password"];

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The data of an answer; throws a Problem otherwise. */
export async function ok<T>(answer: Promise<Answer<T>>): Promise<T> {
  let got: Answer<T>;
  try {
    got = await answer;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(t.problems.offline, 0, "offline");
  }
  if (got.response.ok) return got.data as T;
  const problem = problemOf(got.response.status, got.error);
  if (problem.status === 401 && !OF_A_LINK.includes(problem.code)) onSignedOut();
  throw problem;
}

/** What a problem document says, or the best there is to say without one. */
export function problemOf(status: number, body: unknown): Problem {
  const said = typeof body === "object" && body !== null ? (body as Partial<Schemas["Problem"]>) : {};
  const fields = said.errors ?? [];
  const sentence = fields.length
    ? fields.map(({ field, message }) => (message.startsWith(`${field}: `) ? message : `${field}: ${message}`)).join("; ")
    : said.detail || said.title || t.problems.unknown(status);
  return new Problem(sentence, status, said.code ?? "unknown", fields);
}

/** A sentence for whatever was thrown. */
export function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Names a request, so that sending it again does not do it again. */
export function idempotencyKey(): { "Idempotency-Key": string } {
  // Not randomUUID, which is missing on plain http beyond localhost.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return { "Idempotency-Key": Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("") };
}
