/** The time, once a second, for countdowns and "3 min ago". Runs only while somebody reads it. */
import { createSubscriber } from "svelte/reactivity";

const tick = createSubscriber((update) => {
  const timer = setInterval(update, 1000);
  return () => clearInterval(timer);
});

export function now(): number {
  tick();
  return Date.now();
}
