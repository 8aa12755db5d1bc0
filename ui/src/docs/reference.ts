/** The API's document as people read it: routes by noun, with what they take, answer, and how to call them. Pure. */

export interface Schema {
  $ref?: string;
  type?: string;
  format?: string;
  title?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
}

interface Parameter {
  name: string;
  in: "path" | "query" | "header" | "cookie";
  required?: boolean;
  description?: string;
  schema: Schema;
}

type Content = Record<string, { schema?: Schema }>;

interface Answered {
  $ref?: string;
  description?: string;
  content?: Content;
}

interface Described {
  tags?: string[];
  summary?: string;
  description?: string;
  operationId: string;
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Content };
  responses: Record<string, Answered>;
  "x-role"?: Role;
}

export interface ApiDocument {
  info: { title: string; version: string; description?: string };
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema>; responses: Record<string, Answered> };
}

export type Role = "public" | "user" | "admin" | "worker";

/** One line of a table; `depth` is how far inside of others it stands. */
export interface Field {
  name: string;
  type: string;
  required: boolean;
  about: string;
  depth: number;
}

export interface Shape {
  contentType: string;
  type: string;
  fields: Field[];
}

export interface Answer {
  status: string;
  about: string;
  shapes: Shape[];
}

export interface Operation {
  id: string;
  method: string;
  path: string;
  title: string;
  about: string;
  role: Role;
  parameters: (Field & { place: string })[];
  bodies: Shape[];
  answers: Answer[];
  curl: string;
}

export interface Group {
  name: string;
  operations: Operation[];
}

/** What most people look for comes first; nouns that are not known here come last. */
const ORDER = ["media", "uploads", "playback", "transcripts", "transcriptions", "search", "events", "queue", "webhooks", "profiles", "accounts", "workers", "settings", "health", "openai", "index", "worker protocol"];
const METHODS = ["get", "post", "put", "patch", "delete", "head", "options"];
const DEEPEST = 2;
const JSON_TYPE = "application/json";

export function groupsOf(document: ApiDocument, origin: string): Group[] {
  const groups = new Map<string, Operation[]>();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of METHODS.filter((each) => each in methods)) {
      const described = methods[method]!;
      const noun = described.tags?.[0] ?? "";
      groups.set(noun, [...(groups.get(noun) ?? []), operationOf(document, method.toUpperCase(), path, described, origin)]);
    }
  }
  const place = (name: string) => (ORDER.indexOf(name) + ORDER.length + 1) % (ORDER.length + 1);
  return [...groups].map(([name, operations]) => ({ name, operations })).sort((one, other) => place(one.name) - place(other.name));
}

/** Those that have all of the words somewhere in their noun, method, address or title. */
export function found(groups: Group[], words: string): Group[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return groups;
  const has = (group: Group, each: Operation) => {
    const text = `${group.name} ${each.method} ${each.path} ${each.title} ${each.about}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  };
  return groups.map((group) => ({ ...group, operations: group.operations.filter((each) => has(group, each)) })).filter((group) => group.operations.length);
}

function operationOf(document: ApiDocument, method: string, path: string, given: Described, origin: string): Operation {
  const title = given.summary ?? path;
  const content = given.requestBody?.content ?? {};
  return {
    id: given.operationId,
    method,
    path,
    title,
    about: given.description ?? "",
    role: given["x-role"] ?? "user",
    parameters: (given.parameters ?? []).map((each) => ({
      ...fieldOf(document, each.name, each.schema, each.required ?? false, 0),
      about: each.description ?? "",
      place: each.in,
    })),
    bodies: shapesOf(document, content),
    answers: Object.entries(given.responses).map(([status, each]) => answerOf(document, status, each)),
    curl: curlOf(document, method, path, given, origin),
  };
}

function answerOf(document: ApiDocument, status: string, given: Answered): Answer {
  const answer = given.$ref ? (document.components.responses[last(given.$ref)] ?? {}) : given;
  return { status, about: answer.description ?? "", shapes: shapesOf(document, answer.content ?? {}) };
}

function shapesOf(document: ApiDocument, content: Content): Shape[] {
  return Object.entries(content).map(([contentType, { schema = {} }]) => ({
    contentType,
    type: typeOf(document, schema),
    fields: fieldsOf(document, schema, 0, []),
  }));
}

/** The properties of an object, or of what a list or a choice holds, with theirs below them. */
export function fieldsOf(document: ApiDocument, schema: Schema, depth: number, within: string[]): Field[] {
  if (depth > DEEPEST) return [];
  if (schema.$ref) {
    const name = last(schema.$ref);
    // One that holds itself is shown once.
    return within.includes(name) ? [] : fieldsOf(document, resolved(document, schema), depth, [...within, name]);
  }
  if (schema.items) return fieldsOf(document, schema.items, depth, within);
  if (schema.anyOf) return schema.anyOf.flatMap((each) => fieldsOf(document, each, depth, within));
  return Object.entries(schema.properties ?? {}).flatMap(([name, each]) => [
    fieldOf(document, name, each, schema.required?.includes(name) ?? false, depth),
    ...fieldsOf(document, each, depth + 1, within),
  ]);
}

function fieldOf(document: ApiDocument, name: string, schema: Schema, required: boolean, depth: number): Field {
  return { name, type: typeOf(document, schema), required, about: schema.description ?? "", depth };
}

export function typeOf(document: ApiDocument, schema: Schema): string {
  if (schema.$ref) {
    const real = resolved(document, schema);
    return real.enum ? typeOf(document, real) : last(schema.$ref);
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.anyOf) return [...new Set(schema.anyOf.map((each) => typeOf(document, each)))].join(" | ");
  if (schema.type === "array") return listOf(typeOf(document, schema.items ?? {}));
  if (schema.format === "binary") return "file";
  if (schema.type === "object" && typeof schema.additionalProperties === "object") return `{ …: ${typeOf(document, schema.additionalProperties)} }`;
  return schema.type ?? "any";
}

const listOf = (type: string) => (type.includes(" ") ? `(${type})[]` : `${type}[]`);

function resolved(document: ApiDocument, schema: Schema): Schema {
  return schema.$ref ? (document.components.schemas[last(schema.$ref)] ?? {}) : schema;
}

const last = (ref: string) => ref.slice(ref.lastIndexOf("/") + 1);

// What to type

const KEYS: Record<Role, string> = { public: "", user: "$RUSHES_TOKEN", admin: "$RUSHES_TOKEN", worker: "$RUSHES_WORKER_KEY" };
const shouted = (name: string) => name.replaceAll("-", "_").toUpperCase();

function curlOf(document: ApiDocument, method: string, path: string, given: Described, origin: string): string {
  const needed = (given.parameters ?? []).filter((each) => each.required);
  const query = needed.filter((each) => each.in === "query").map((each) => `${each.name}=${shouted(each.name)}`);
  const address = origin + path.replace(/\{(\w+)\}/g, (_, name: string) => shouted(name)) + (query.length ? `?${query.join("&")}` : "");
  const key = KEYS[given["x-role"] ?? "user"];
  const streams = Object.values(given.responses).some((each) => "text/event-stream" in (each.content ?? {}));
  const parts = [
    `curl${streams ? " -N" : ""}${method === "HEAD" ? " -I" : method === "GET" ? "" : ` -X ${method}`} "${address}"`,
    ...(key ? [`-H "Authorization: Bearer ${key}"`] : []),
    ...needed.filter((each) => each.in === "header").map((each) => `-H "${each.name}: ${each.schema.const ?? shouted(each.name)}"`),
    ...bodyOf(document, given.requestBody?.content ?? {}, method === "PATCH"),
  ];
  return parts.join(" \\\n  ");
}

function bodyOf(document: ApiDocument, content: Content, changes: boolean): string[] {
  const types = Object.keys(content);
  const type = types.includes(JSON_TYPE) && types.length === 1 ? JSON_TYPE : types[0];
  if (!type) return [];
  if (type === "multipart/form-data") return formOf(document, resolved(document, content[type]!.schema ?? {}));
  if (type !== JSON_TYPE) return [`-H "Content-Type: ${type}"`, "--data-binary @FILE"];
  return [`-H "Content-Type: ${JSON_TYPE}"`, `-d '${JSON.stringify(exampleOf(document, content[type]!.schema ?? {}, changes))}'`];
}

function formOf(document: ApiDocument, schema: Schema): string[] {
  return (schema.required ?? []).map((name) => {
    const type = typeOf(document, schema.properties?.[name] ?? {});
    return type === "file" ? `-F ${name}=@recording.mp4` : `-F ${name}=${shouted(name)}`;
  });
}

/** With what must be there; the table beside it says what else may be. `changes`: without anything it would change nothing. */
export function exampleOf(document: ApiDocument, schema: Schema, changes = false): unknown {
  const real = resolved(document, schema);
  if (real.const !== undefined) return real.const;
  if (real.enum) return real.enum[0];
  if (real.anyOf) return exampleOf(document, real.anyOf[0]!);
  switch (real.type) {
    case "array":
      return [exampleOf(document, real.items ?? {})];
    case "integer":
    case "number":
      return 1;
    case "boolean":
      return true;
    case "string":
      return "…";
    default: {
      const needed = real.required ?? [];
      const said = changes && !needed.length ? Object.keys(real.properties ?? {}).slice(0, 1) : needed;
      return Object.fromEntries(said.map((name) => [name, exampleOf(document, real.properties?.[name] ?? {})]));
    }
  }
}
