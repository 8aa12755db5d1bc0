/** Reads server-sent events off a stream of text, whatever way it was cut into pieces. */
export interface Frame {
  id?: string;
  event?: string;
  data?: string;
}

export class FrameReader {
  private rest = "";

  /** The frames that are complete now. */
  push(text: string): Frame[] {
    this.rest += text;
    const frames: Frame[] = [];
    for (;;) {
      const end = this.rest.search(/\r?\n\r?\n/);
      if (end < 0) return frames;
      const block = this.rest.slice(0, end);
      this.rest = this.rest.slice(end).replace(/^\r?\n\r?\n/, "");
      frames.push(frameOf(block));
    }
  }
}

function frameOf(block: string): Frame {
  const frame: Frame = {};
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") frame.data = frame.data === undefined ? value : `${frame.data}\n${value}`;
    else if (name === "id" || name === "event") frame[name] = value;
  }
  return frame;
}
