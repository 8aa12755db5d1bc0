import { expect, test } from "vitest";
import { fitOf } from "../src/player/picture";

test.each([
  [1920, 1080, false, "filled"],
  [640, 480, false, "filled"],
  [1920, 800, false, "filled"],
  [1080, 1920, false, "whole"],
  [500, 500, true, "whole"],
  [3440, 1080, false, "whole"],
  [1280, 240, true, "wave"],
  [1280, 240, false, "whole"],
  [10, 0, false, "whole"],
])("%s × %s, sound %s: %s", (width, height, isSound, fit) => expect(fitOf(width, height, isSound)).toBe(fit));
