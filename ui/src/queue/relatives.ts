/** How jobs belong together: what one waits for, is a part of, takes the place of. Pure. */
import type { Job } from "../lib/api";
import { kinds } from "../lib/kinds.svelte";
import { t } from "./texts";

export interface Relative {
  id: string;
  /** Nothing when only its id is known. */
  job: Job | undefined;
}

export interface Group {
  label: string;
  items: Relative[];
}

export function relatives(job: Job, others: Job[]): Group[] {
  const words = t.queue.drawer;
  const known = (id: string): Relative => ({ id, job: others.find((each) => each.id === id) });
  const all = (fits: (each: Job) => boolean): Relative[] =>
    others.filter(fits).toReversed().map((each) => ({ id: each.id, job: each }));
  const groups: Group[] = [
    { label: kinds.isPart(job.kind) ? words.partOf : words.parent, items: job.parent_id ? [known(job.parent_id)] : [] },
    { label: words.retryOf, items: job.retry_of ? [known(job.retry_of)] : [] },
    { label: words.retriedAs, items: all((each) => each.retry_of === job.id) },
    { label: words.parts, items: all((each) => each.parent_id === job.id && kinds.isPart(each.kind)) },
    { label: words.followUps, items: all((each) => each.parent_id === job.id && !kinds.isPart(each.kind)) },
  ];
  return groups.filter((group) => group.items.length);
}
