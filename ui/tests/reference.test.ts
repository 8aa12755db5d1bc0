import { expect, test } from "vitest";
import document from "../../docs/openapi.json";
import { fieldsOf, found, groupsOf, typeOf, type ApiDocument } from "../src/docs/reference";

const api = document as unknown as ApiDocument;
const groups = groupsOf(api, "https://films.example");
const all = groups.flatMap((each) => each.operations);
const named = (id: string) => all.find((each) => each.id === id)!;

test("every route of the document is there, with a command", () => {
  expect(groups[0]!.name).toBe("media");
  expect(groups.at(-1)!.name).toBe("worker protocol");
  expect(all).toHaveLength(Object.values(api.paths).flatMap((each) => Object.keys(each)).length);
  expect(all.filter((each) => !each.curl.startsWith("curl") || !each.title || !each.answers.length)).toEqual([]);
  expect(all.filter((each) => each.curl.includes("undefined"))).toEqual([]);
});

test("words find routes by noun, method, address and title", () => {
  const ids = (words: string) => found(groups, words).flatMap((each) => each.operations.map(({ id }) => id));
  expect(ids("trim POST")).toEqual(["post_media_media_id_trim"]);
  expect(ids("  ")).toHaveLength(all.length);
  expect(ids("no such thing at all")).toEqual([]);
});

test("a command has what must be said", () => {
  expect(named("get_search").curl).toBe('curl "https://films.example/api/v1/search?q=Q" \\\n  -H "Authorization: Bearer $RUSHES_TOKEN"');
  expect(named("post_media").curl).toContain("-F file=@recording.mp4");
  expect(named("post_uploads").curl).toContain('-H "Tus-Resumable: 1.0.0"');
  expect(named("patch_media_media_id").curl).toContain(`-d '{"title":"…"}'`);
  expect(named("patch_media_media_id").curl).toContain("/api/v1/media/MEDIA_ID");
  expect(named("get_health").curl).not.toContain("Authorization");
  expect(named("post_worker_claim").curl).toContain("$RUSHES_WORKER_KEY");
});

test("fields inside of others stand below them, and what holds itself ends", () => {
  const media = fieldsOf(api, { $ref: "#/components/schemas/Media" }, 0, []);
  const at = media.findIndex((each) => each.name === "renditions");
  expect(media[at]).toMatchObject({ type: "Rendition[]", depth: 0, required: true });
  expect(media[at + 1]!.depth).toBe(1);
  const own: ApiDocument = { ...api, components: { responses: {}, schemas: { Tree: { type: "object", properties: { below: { type: "array", items: { $ref: "#/components/schemas/Tree" } } } } } } };
  expect(fieldsOf(own, { $ref: "#/components/schemas/Tree" }, 0, []).map((each) => each.type)).toEqual(["Tree[]"]);
});

test("types are read as people write them", () => {
  expect(typeOf(api, { anyOf: [{ type: "string" }, { type: "null" }] })).toBe("string | null");
  expect(typeOf(api, { type: "array", items: { enum: ["a", "b"] } })).toBe('("a" | "b")[]');
  expect(typeOf(api, { type: "object", additionalProperties: { type: "integer" } })).toBe("{ …: integer }");
});
