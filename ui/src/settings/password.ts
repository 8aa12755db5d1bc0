/** Setting one's own password. */
import { api, ok, Problem, problemOf, type Me } from "../lib/api";
import { t } from "./texts";

export const SHORTEST = 12;

/** Returns who we are then. A wrong current password is answered like a session that has ended: which
of the two it was, the session itself knows. */
export async function setPassword(password: string, old: string | null): Promise<Me> {
  const body = { password, old_password: old };
  const answer = await api.PUT("/api/v1/session/password", { body }).catch(() => undefined);
  const me = await ok(api.GET("/api/v1/session"));
  if (!answer) throw new Problem(t.problems.offline, 0, "offline");
  const { status } = answer.response;
  if (status === 401) throw wrongOld();
  if (!answer.response.ok) throw status === 429 ? new Problem(t.problems.tooManyTries, 429, "too_many_requests") : problemOf(status, answer.error);
  return me;
}

function wrongOld(): Problem {
  const message = t.settings.account.wrongOld;
  return new Problem(message, 401, "wrong_password", [{ field: "old_password", message }]);
}
