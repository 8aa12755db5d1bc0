import { expect, test } from "vitest";
import { FrameReader } from "../src/lib/sse";

const STREAM = "retry: 2000\nid: 7\n\n: keep-alive\n\nid: 8\nevent: media.ready\ndata: {\"id\":\"ä\"}\n\ndata: one\ndata: two\n\n";

test("frames are the same however the stream is cut", () => {
  const whole = new FrameReader().push(STREAM);
  for (let size = 1; size < STREAM.length; size += 1) {
    const reader = new FrameReader();
    const frames = [];
    for (let at = 0; at < STREAM.length; at += size) frames.push(...reader.push(STREAM.slice(at, at + size)));
    expect(frames).toEqual(whole);
  }
});

test("positions, names and data of several lines are read", () => {
  expect(new FrameReader().push(STREAM)).toEqual([
    { id: "7" },
    {},
    { id: "8", event: "media.ready", data: '{"id":"ä"}' },
    { data: "one\ntwo" },
  ]);
});

test("half a frame waits for its other half", () => {
  const reader = new FrameReader();
  expect(reader.push("data: a")).toEqual([]);
  expect(reader.push("b\n\n")).toEqual([{ data: "ab" }]);
});

test("carriage returns are line ends, too", () => {
  expect(new FrameReader().push("id: 1\r\ndata: x\r\n\r\n")).toEqual([{ id: "1", data: "x" }]);
});
