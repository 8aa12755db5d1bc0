import { expect, test } from "vitest";
import { match } from "../src/lib/router.svelte";

test.each([
  ["/", "library", {}],
  ["/watch/med_1", "watch", { id: "med_1" }],
  ["/watch/med_1/", "watch", { id: "med_1" }],
  ["/queue", "queue", {}],
  ["/queue/job_1", "job", { id: "job_1" }],
  ["/settings/users", "section", { section: "users" }],
  ["/s/a%2Fb", "share", { token: "a/b" }],
  ["/s/%E0%A4%A", "share", { token: "%E0%A4%A" }],
  ["/watch", "missing", {}],
  ["/api/v1/media", "missing", {}],
])("%s is %s", (path, name, params) => {
  expect(match(path, "?t=3")).toMatchObject({ name, params });
  expect(match(path, "?t=3").query.get("t")).toBe("3");
});
