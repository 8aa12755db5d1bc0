/** Asks the server how it is. Its health pages answer 503 when it is not well, and still say why. */
import { api, ok, Problem } from "../lib/api";
import { t } from "../lib/texts";
import type { Answers } from "./health";

const MIN_FREE = "RUSHES_MIN_FREE_SPACE";

export async function readHealth(): Promise<Answers> {
  const [details, ready, health, settings] = await Promise.all([
    ok(api.GET("/api/health")),
    either(api.GET("/readyz")),
    either(api.GET("/health")),
    ok(api.GET("/api/v1/settings")),
  ]);
  const minFree = settings.items.find((each) => each.name === MIN_FREE)?.value;
  return { details, ready, health, minFreeBytes: typeof minFree === "number" ? minFree : 0 };
}

async function either<T>(answer: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  let got;
  try {
    got = await answer;
  } catch {
    throw new Problem(t.problems.offline, 0, "offline");
  }
  if (got.response.ok) return got.data as T;
  if (got.response.status === 503 && typeof got.error === "object") return got.error as T;
  throw new Problem(t.problems.unknown(got.response.status), got.response.status, "unknown");
}
