/** What the player's settings offer. Pure. */
import { formatNumber, locale } from "../lib/language";
import type { PlayerState } from "./state.svelte";
import { RATES } from "./shortcuts";
import { t } from "./texts";

export interface Choice {
  text: string;
  checked: boolean;
  run: () => void;
}

export interface Group {
  name: string;
  /** What is chosen now. */
  now: string;
  choices: Choice[];
}

const SIZES = ["small", "medium", "large"] as const;

/** Only what there is anything to choose of. */
export function groupsOf(player: PlayerState): Group[] {
  const groups = [speed(player), quality(player), sound(player), captions(player), captionSize(player)];
  return groups.filter((each) => each.choices.length > 1);
}

function group(name: string, choices: Choice[], now?: string): Group {
  return { name, choices, now: now ?? choices.find((each) => each.checked)?.text ?? "" };
}

function speed(player: PlayerState): Group {
  const { rate } = player.preferences;
  const choices = RATES.map((each) => ({
    text: each === 1 ? t.player.normalSpeed : `${formatNumber(each)}×`,
    checked: each === rate,
    run: () => player.setRate(each),
  }));
  return group(t.player.speed, choices, rate === 1 ? t.player.normalSpeed : `${formatNumber(rate)}×`);
}

function quality(player: PlayerState): Group {
  const { qualities, chosen, level } = player.stream;
  if (qualities.length < 2) return group(t.player.quality, []);
  const shown = qualities.find((each) => each.level === level)?.name;
  const auto = { text: t.player.auto, checked: chosen < 0, run: () => player.chooseQuality(-1) };
  const fixed = qualities.map((each) => ({
    text: each.name,
    checked: each.level === chosen,
    run: () => player.chooseQuality(each.level),
  }));
  return group(t.player.quality, [auto, ...fixed], chosen < 0 && shown ? t.player.autoNow(shown) : undefined);
}

function sound(player: PlayerState): Group {
  const { sounds, sound: now } = player.stream;
  const choices = sounds.map((text, at) => ({ text, checked: at === now, run: () => player.stream.chooseSound(at) }));
  return group(t.player.sound, choices);
}

function captions(player: PlayerState): Group {
  const { texts, chosen } = player.extras;
  if (!texts.length) return group(t.player.captions, []);
  const on = player.preferences.captions;
  const shown = texts.map(({ file, language, name }) => ({
    text: name && name !== language ? name : languageName(language) || t.player.on,
    checked: on && file === chosen,
    run: () => {
      player.keep({ captions: true });
      void player.extras.chooseTexts(file);
    },
  }));
  return group(t.player.captions, [
    { text: t.player.off, checked: !on, run: () => player.keep({ captions: false }) },
    ...shown,
  ]);
}

function captionSize(player: PlayerState): Group {
  if (!player.extras.texts.length || !player.preferences.captions) return group(t.player.captionSize, []);
  const choices = SIZES.map((size) => ({
    text: t.player.sizes[size],
    checked: player.preferences.captionSize === size,
    run: () => player.keep({ captionSize: size }),
  }));
  return group(t.player.captionSize, choices);
}

/** "English" for "en", in the reader's own language; as it came when it is none. */
export function languageName(code: string): string {
  try {
    return (code && new Intl.DisplayNames(locale, { type: "language" }).of(code)) || code;
  } catch {
    return code;
  }
}
