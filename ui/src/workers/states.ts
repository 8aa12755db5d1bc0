/** Whether a worker may take work. */
import { api, ok, type Worker } from "../lib/api";

export type State = "enabled" | "draining" | "disabled";

export function setState(id: string, state: State): Promise<Worker> {
  const path = { params: { path: { worker_id: id } } };
  if (state === "enabled") return ok(api.POST("/api/v1/workers/{worker_id}/enable", path));
  if (state === "draining") return ok(api.POST("/api/v1/workers/{worker_id}/drain", path));
  return ok(api.POST("/api/v1/workers/{worker_id}/disable", path));
}
