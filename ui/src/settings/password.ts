/** Setting one's own password. */
import { api, ok, Problem, problemOf } from "../lib/api";
import { session } from "../lib/session.svelte";
import { t } from "./texts";

export const SHORTEST = 12;

/** A wrong current password is answered like a session that has ended: which of the two it was, the
session itself knows. It is read again in any case: it says whether the current one is needed now. */
export async function setPassword(password: string, old: string | null): Promise<void> {
  const body = { password, old_password: old };
  const answer = await api.PUT("/api/v1/session/password", { body }).catch(() => undefined);
  await session.entered(await ok(api.GET("/api/v1/session")));
  if (!answer) throw new Problem(t.problems.offline, 0, "offline");
  const { status } = answer.response;
  if (status === 401) throw wrongOld(old === null ? t.settings.account.tooLate : t.settings.account.wrongOld);
  if (!answer.response.ok) throw status === 429 ? new Problem(t.problems.tooManyTries, 429, "too_many_requests") : problemOf(status, answer.error);
}

function wrongOld(message: string): Problem {
  return new Problem(message, 401, "wrong_password", [{ field: "old_password", message }]);
}
