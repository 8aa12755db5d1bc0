import { describe, expect, it } from "vitest";
import { Problem } from "../src/lib/api";
import { deviceOf } from "../src/settings/device";
import { bytesOf, gigabytesOf } from "../src/settings/quota";
import { sectionOf, shownTo } from "../src/settings/sections";
import { fieldsOf, said, sentence } from "../src/settings/sentence";
import { found, grouped, titleOf, valueOf, type Setting } from "../src/settings/serverSettings";

describe("sections", () => {
  it("shows users only what is theirs", () => {
    expect(shownTo(false).map((each) => each.id)).toEqual(["account", "tokens", "webhooks"]);
    expect(shownTo(true).length).toBeGreaterThan(6);
  });

  it("finds what an address asks for", () => {
    expect(sectionOf(undefined)?.id).toBe("account");
    expect(sectionOf("users")?.admin).toBe(true);
    expect(sectionOf("nothing")).toBeUndefined();
  });
});

describe("deviceOf", () => {
  it.each([
    ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/130.0 Safari/537.36", "Chrome on Linux"],
    ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/130.0 Safari/537.36 Edg/130.0", "Edge on Windows"],
    ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15", "Safari on macOS"],
    ["Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", "Firefox on Linux"],
    ["curl/8.5.0", "curl"],
    ["", "Unknown device"],
    ["<b>x</b>", "Unknown device"],
  ])("%s", (agent, name) => {
    expect(deviceOf(agent).name).toBe(name);
  });

  it("knows phones", () => {
    const phone = deviceOf("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1");
    expect(phone).toEqual({ name: "Safari on iPhone", isPhone: true });
    expect(deviceOf("Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/130.0 Mobile Safari/537.36").isPhone).toBe(true);
  });
});

describe("sentence", () => {
  it("makes sentences of what the server says", () => {
    expect(sentence("this is the last admin")).toBe("This is the last admin.");
    expect(sentence("Input should be less than or equal to 51")).toBe("Must be less than or equal to 51.");
    expect(sentence("Done.")).toBe("Done.");
    expect(sentence(" ")).toBe("");
  });

  it("does not repeat a field's name", () => {
    const problem = new Problem("url: must name a host", 422, "bad_field", [{ field: "url", message: "url: must name a host" }]);
    expect(fieldsOf(problem)).toEqual([{ field: "url", message: "Must name a host." }]);
    expect(fieldsOf(new Error("no"))).toEqual([]);
    expect(said(new Error("no such thing"))).toBe("No such thing.");
  });
});

describe("quota", () => {
  it("reads gigabytes", () => {
    expect(bytesOf("")).toBeNull();
    expect(bytesOf(" 1.5 ")).toBe(1_500_000_000);
    expect(bytesOf("1,5")).toBe(1_500_000_000);
    expect(bytesOf("0")).toBe(0);
    expect(bytesOf("-1")).toBeUndefined();
    expect(bytesOf("much")).toBeUndefined();
    expect(bytesOf("99999999999")).toBeUndefined();
  });

  it("shows what it reads", () => {
    expect(gigabytesOf(null)).toBe("");
    expect(bytesOf(gigabytesOf(2_500_000_000))).toBe(2_500_000_000);
  });
});

describe("server settings", () => {
  const setting = (name: string, shown: string, given: Partial<Setting> = {}): Setting => ({
    name,
    value: shown,
    sentence: `About ${name}.`,
    shown,
    default: "",
    expected: "text",
    origin: "default",
    set_where: null,
    is_locked: false,
    page: null,
    change: null,
    after_restart: null,
    control: "text",
    choices: [],
    is_secret: false,
    version: 0,
    changed_at: null,
    changed_by: null,
    ...given,
  });
  const all = [
    setting("RUSHES_PORT", "8484", { sentence: "The port the server listens on." }),
    setting("RUSHES_ADMIN_TOKEN", "***", { is_secret: true }),
    setting("RUSHES_REDIS_URL", ""),
    setting("RUSHES_JOB_RETENTION", "90 days", { page: "retention", control: "duration" }),
    setting("RUSHES_OPENAI_STORE", "True", { page: "defaults", control: "switch" }),
    setting("RUSHES_ENGINE_MODEL", "", { page: "defaults", default: "the engine's own" }),
    setting("RUSHES_OF_NEXT_YEAR", "1", { page: "defaults" }),
    setting("RUSHES_TRASH_PERIOD", "30 days", { page: "retention" }),
  ];

  it("finds by name, meaning, our words and value", () => {
    const names = (query: string) => found(all, query).map((each) => each.name);
    expect(names("").length).toBe(all.length);
    expect(names("PORT listens")).toEqual(["RUSHES_PORT"]);
    expect(names("redis url")).toEqual(["RUSHES_REDIS_URL"]);
    expect(names("finished jobs 90 days")).toEqual(["RUSHES_JOB_RETENTION"]);
    expect(names("8484 token")).toEqual([]);
  });

  it("shows what is empty, hidden or a switch as words", () => {
    expect(all.slice(0, 6).map((each) => valueOf(each).text)).toEqual(["8484", "hidden", "not set", "90 days", "Yes", "the engine's own"]);
  });

  it("groups what can be changed in the order of the page, and keeps what it does not know", () => {
    expect(grouped(all).map(({ id, items }) => [id, ...items.map((each) => each.name.slice(7))])).toEqual([
      ["defaults", "ENGINE_MODEL", "OPENAI_STORE", "OF_NEXT_YEAR"],
      ["retention", "TRASH_PERIOD", "JOB_RETENTION"],
    ]);
    expect(titleOf(all[6]!)).toBe("RUSHES_OF_NEXT_YEAR");
  });
});
