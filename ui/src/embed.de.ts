/** The player on other sites in German. */
import { de as lib } from "./lib/texts.de";
import { de as player } from "./player/texts.de";
import { de as watch } from "./watch/texts.de";

export default { ...lib, ...player, ...watch };
