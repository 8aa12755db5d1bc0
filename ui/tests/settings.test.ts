import { describe, expect, it } from "vitest";
import { Problem } from "../src/lib/api";
import { deviceOf } from "../src/settings/device";
import { bytesOf, gigabytesOf } from "../src/settings/quota";
import { sectionOf, shownTo } from "../src/settings/sections";
import { fieldsOf, said, sentence } from "../src/settings/sentence";
import { found, shown } from "../src/settings/serverSettings";

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
  const settings = [
    { name: "RUSHES_PORT", value: 8484, sentence: "The port the server listens on." },
    { name: "RUSHES_TOKEN", value: "***", sentence: "A token." },
    { name: "RUSHES_REDIS_URL", value: "", sentence: "The Redis." },
    { name: "RUSHES_KEEP", value: true, sentence: "Whether to keep." },
  ];

  it("finds all words, anywhere", () => {
    expect(found(settings, "").length).toBe(4);
    expect(found(settings, "PORT listens").map((each) => each.name)).toEqual(["RUSHES_PORT"]);
    expect(found(settings, "redis url").map((each) => each.name)).toEqual(["RUSHES_REDIS_URL"]);
    expect(found(settings, "8484 token")).toEqual([]);
  });

  it("shows values as people would set them", () => {
    expect(settings.map((each) => shown(each.value).text)).toEqual(["8484", "hidden", "not set", "true"]);
  });
});
