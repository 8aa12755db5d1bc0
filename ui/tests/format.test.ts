import { expect, test } from "vitest";
import { ago, bytes, clock, date, exactTime, percent, span, speed, time, weekdayTime } from "../src/lib/format";

test.each([
  [0, "0:00"],
  [75.9, "1:15"],
  [3675, "1:01:15"],
  [36_000, "10:00:00"],
  [-3, "0:00"],
  [NaN, "0:00"],
])("%s seconds on a clock", (seconds, shown) => expect(clock(seconds)).toBe(shown));

test.each([
  [40, "40 s"],
  [200, "3 min"],
  [7500, "2 h 5 min"],
  [7200, "2 h"],
  [3599, "1 h"],
  [86_399, "1 d"],
  [400_000, "5 d"],
])("%s seconds in words", (seconds, shown) => expect(span(seconds)).toBe(shown));

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1500, "1.5 KB"],
  [123_456_789, "123 MB"],
  [5e15, "5,000 TB"],
])("%s bytes", (count, shown) => expect(bytes(count)).toBe(shown));

test.each([
  [0, "0 %"],
  [0.4299, "42 %"],
  [0.9999, "99 %"],
  [1, "100 %"],
  [-1, "0 %"],
])("%s is not done before it is done", (share, shown) => expect(percent(share)).toBe(shown));

test("speeds", () => {
  expect(speed(2.14)).toBe("2.1×");
  expect(speed(31.7)).toBe("32×");
});

test("how long ago", () => {
  const now = Date.parse("2026-01-01T00:03:00Z");
  expect(ago("2026-01-01T00:00:00Z", now)).toBe("3 min ago");
  expect(ago("2026-01-01T00:02:58Z", now)).toBe("just now");
  expect(ago(null, now)).toBe("never");
});

test("the time of day is on one clock everywhere", () => {
  const hasHalves = new Intl.DateTimeFormat(undefined, { timeStyle: "short" }).resolvedOptions().hour12;
  for (const each of [time, exactTime, weekdayTime]) expect(/[ap]m/i.test(each("2026-05-04T21:05:00"))).toBe(hasHalves);
  expect(time(Date.parse("2026-05-04T21:05:00"))).toBe(time("2026-05-04T21:05:00"));
});

test("no time is written as nothing", () => {
  for (const each of [time, date, exactTime]) expect([each(null), each(undefined), each(""), each("soon")]).toEqual(["", "", "", ""]);
});
