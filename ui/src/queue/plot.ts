/** Draws a small chart over time. Loaded when the first chart is shown. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
  /** A token of app.css. */
  colour: string;
  values: (number | null)[];
  isLine?: boolean;
}

export interface Options {
  /** In seconds. */
  times: number[];
  step: number;
  series: Series[];
  time: (seconds: number) => string;
  value: (value: number) => string;
  /** Only whole numbers on the axis. */
  isCount: boolean;
  onpoint: (index: number | null) => void;
}

const HEIGHT = 116;
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000];
const SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];
const FONT_PX = 12;

/** What a token stands for just now: canvases know nothing of them. */
function resolved(box: HTMLElement, token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  box.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/** How wide words are on the canvas. */
function ruler(font: string): (text: string) => number {
  const context = document.createElement("canvas").getContext("2d")!;
  context.font = font;
  return (text) => context.measureText(text).width;
}

export function draw(box: HTMLElement, options: Options): uPlot {
  const colour = (token: string) => resolved(box, token);
  const font = `${FONT_PX}px ${getComputedStyle(box).fontFamily}`;
  const widthOf = ruler(font);
  // A time stands under its place, half of it to the right: the last one needs that much room.
  const timeWidth = Math.max(0, ...options.times.slice(0, 50).map((each) => widthOf(options.time(each))));
  const data = [options.times, ...options.series.map((each) => each.values)] as uPlot.AlignedData;
  const plot = new uPlot(
    {
      width: Math.max(80, box.clientWidth),
      height: HEIGHT,
      padding: [8, Math.ceil(timeWidth / 2), 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { range: (_, from, to) => [from - options.step / 2, to + options.step / 2] },
        y: { range: (_, __, most) => [0, Math.max(options.isCount ? 2 : 5, (most ?? 0) * 1.15)] },
      },
      axes: [
        {
          stroke: colour("--muted"),
          font,
          size: 24,
          gap: 4,
          space: timeWidth + 16,
          grid: { show: false },
          ticks: { show: false },
          values: (_, splits) => splits.map(options.time),
        },
        {
          stroke: colour("--muted"),
          font,
          size: (_, values) => Math.ceil(Math.max(20, ...(values ?? []).map(widthOf))) + 12,
          gap: 4,
          space: 30,
          grid: { stroke: colour("--border"), width: 1 },
          ticks: { show: false },
          incrs: options.isCount ? WHOLE : SECONDS,
          values: (_, splits) => splits.map(options.value),
        },
      ],
      series: [{}, ...options.series.map((each) => looks(colour(each.colour), each.isLine ?? false))],
      hooks: { setCursor: [(self) => options.onpoint(self.cursor.idx ?? null)] },
    },
    data,
    box,
  );
  return plot;
}

function looks(colour: string, isLine: boolean): uPlot.Series {
  if (isLine) return { stroke: colour, width: 2, spanGaps: true, points: { show: true, size: 4, fill: colour } };
  const bars = uPlot.paths.bars?.({ size: [0.75, 24, 2] });
  return { stroke: colour, fill: colour, width: 0, points: { show: false }, ...(bars ? { paths: bars } : {}) };
}

export function resize(plot: uPlot, width: number): void {
  if (width > 0 && width !== plot.width) plot.setSize({ width, height: HEIGHT });
}
