/** The words of the API reference. */
import { byCode, plural, translatable } from "../lib/language";
import { t as shared } from "../lib/texts";

const docs = {
  title: shared.app.docs,
  lead: "Your programs can do everything these pages do. Send one of your tokens as “Authorization: Bearer TOKEN”. Errors are application/problem+json with a stable code.",
  tokens: "Create a token",
  document: "openapi.json",
  nouns: "Resources",
  search: "Find a route",
  searchHint: "Find a route, such as upload or transcript",
  count: (n: number) => plural(n, "route", "routes"),
  none: (words: string) => `No route matches “${words}”.`,
  failed: "The reference could not be loaded",
  roles: { public: "For everyone, without a token.", user: "For everyone with a token.", admin: "For admins.", worker: "For workers, with their key." },
  parameters: "Parameters",
  body: "Body",
  answers: "Responses",
  example: "Try it",
  copy: "Copy command",
  name: "Name",
  type: "Type",
  meaning: "Description",
  required: "required",
  places: byCode({ path: "in the path", query: "in the query", header: "header", cookie: "cookie" }),
  groups: byCode({ openai: "OpenAI’s API", "worker protocol": "Worker protocol" }),
};

export const t = { ...shared, ...translatable({ docs }) };
