/** What kind of browser signed in, from the words it sends about itself. Pure. */
import { t } from "./texts";

export interface Device {
  name: string;
  isPhone: boolean;
}

// The first that fits counts: most browsers also name those they descend from.
const BROWSERS: [RegExp, string][] = [
  [/\bEdg(e|A|iOS)?\//, "Edge"],
  [/\b(OPR|Opera)\//, "Opera"],
  [/\bVivaldi\//, "Vivaldi"],
  [/\bSamsungBrowser\//, "Samsung Internet"],
  [/\b(Firefox|FxiOS)\//, "Firefox"],
  [/(HeadlessChrome|\bChrome|\bCriOS|\bChromium)\//, "Chrome"],
  [/\bSafari\//, "Safari"],
];
const SYSTEMS: [RegExp, string][] = [
  [/\bWindows\b/, "Windows"],
  [/\bAndroid\b/, "Android"],
  [/\biPhone\b/, "iPhone"],
  [/\biPad\b/, "iPad"],
  [/\bMac OS X\b|\bMacintosh\b/, "macOS"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bLinux\b|\bX11\b/, "Linux"],
];

export function deviceOf(agent: string): Device {
  const browser = BROWSERS.find(([words]) => words.test(agent))?.[1] ?? program(agent);
  const system = SYSTEMS.find(([words]) => words.test(agent))?.[1] ?? "";
  return {
    name: t.settings.account.device(browser, system) || t.settings.account.unknownDevice,
    isPhone: /\b(Mobile|iPhone|Android)\b/.test(agent),
  };
}

/** Programs that are no browsers: "curl/8.5.0" → "curl". */
function program(agent: string): string {
  const name = /^[\w.-]{1,40}(?=\/|$)/.exec(agent.trim())?.[0] ?? "";
  return name === "Mozilla" ? "" : name;
}
