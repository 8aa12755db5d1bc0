import { describe, expect, it } from "vitest";
import { keyOf, meaningOf } from "../src/settings/limit";

const limit = (key: string, name: string | null = null) => ({ key, name, most: 2, running: 0 });

describe("a limit", () => {
  it("is told in words", () => {
    expect(meaningOf(limit("user:*"))).toMatch(/^Each user/);
    expect(meaningOf(limit("user:usr_1", "anna"))).toBe("All jobs of anna");
    expect(meaningOf(limit("kind:transcode"))).toBe("Jobs of the kind transcode");
    expect(meaningOf(limit("worker:studio"))).toBe("On workers named studio");
    expect(meaningOf(limit("engine:a:b"))).toBe("Jobs that name engine:a:b");
    expect(meaningOf(limit("engine:*"))).toBe("Each engine by itself");
  });

  it("has the key that was meant", () => {
    expect(keyOf(" User: Anna ")).toBe("user:anna");
  });
});
