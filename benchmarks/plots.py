"""Two kinds of plots as SVG: lines over a logarithmic axis, and groups of bars.

Each brings its own background, light or dark as its reader's system is, so that it can be read on
any page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 48, 76, 56
STYLE = """
  .ground { fill: #ffffff } .grid { stroke: #d8dee4 } text { fill: #1f2328; font: 13px sans-serif }
  .title { font-weight: 600; font-size: 15px } .soft { fill: #59636e }
  .s0 { --c: #0969da } .s1 { --c: #bc4c00 } .s2 { --c: #6e7781 }
  .line { fill: none; stroke: var(--c); stroke-width: 2 } .mark { fill: var(--c) }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .grid { stroke: #30363d }
    text { fill: #e6edf3 } .soft { fill: #9198a1 }
    .s0 { --c: #58a6ff } .s1 { --c: #ffa657 } .s2 { --c: #8b949e }
  }
"""


def lines(title: str, unit: str, across: str, series: Mapping[str, Mapping[int, float]]) -> str:
    """`series`: a value for each place on the axis, which are shown by powers of ten."""
    places = sorted({place for values in series.values() for place in values})
    low, high = math.log10(places[0]), math.log10(places[-1])
    scale = Scale(max(value for values in series.values() for value in values.values()))

    def x(place: int) -> float:
        return LEFT + (math.log10(place) - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    parts = [*_frame(title, unit, list(series), scale)]
    parts += [_text(x(place), HEIGHT - BOTTOM + 20, f"{place:,}", "middle") for place in places]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, across, "middle", "soft"))
    for number, values in enumerate(series.values()):
        points = [(x(place), scale.y(value)) for place, value in sorted(values.items())]
        joined = " ".join(f"{at:.1f},{height:.1f}" for at, height in points)
        parts.append(f'<polyline class="s{number} line" points="{joined}"/>')
        parts += [
            f'<circle class="s{number} mark" cx="{at:.1f}" cy="{height:.1f}" r="4"/>'
            for at, height in points
        ]
    return _whole(title, parts)


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """`groups`: for each, a bar of each series; a series may be missing in some."""
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    scale = Scale(max(value for values in groups.values() for value in values.values()))
    room = (WIDTH - LEFT - RIGHT) / len(groups)
    width = min(56.0, room * 0.8 / len(names))
    parts = [*_frame(title, unit, names, scale)]
    for place, (group, values) in enumerate(groups.items()):
        middle = LEFT + room * (place + 0.5)
        parts.append(_text(middle, HEIGHT - BOTTOM + 20, group, "middle"))
        for number, (name, value) in enumerate(values.items()):
            at = middle + width * (number - len(values) / 2)
            top = scale.y(value)
            parts.append(
                f'<rect class="s{names.index(name)} mark" x="{at + 1:.1f}" y="{top:.1f}"'
                f' width="{width - 2:.1f}" height="{HEIGHT - BOTTOM - top:.1f}"/>'
            )
            parts.append(_text(at + width / 2, top - 5, _short(value), "middle", "soft"))
    return _whole(title, parts)


class Scale:
    """From nothing to a round number above the greatest value."""

    def __init__(self, greatest: float) -> None:
        rough = max(greatest, 1e-9) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        self.step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough)
        self.top = self.step * math.ceil(greatest / self.step - 1e-9)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - BOTTOM - TOP)

    def ticks(self) -> list[float]:
        return [self.step * number for number in range(round(self.top / self.step) + 1)]


def _frame(title: str, unit: str, names: Sequence[str], scale: Scale) -> list[str]:
    parts = [_text(LEFT, 26, title, "start", "title")]
    parts.append(_text(WIDTH - RIGHT, 26, unit, "end", "soft"))
    at = float(LEFT)
    for number, name in enumerate(names):
        parts.append(f'<rect class="s{number} mark" x="{at:.0f}" y="42" width="12" height="12"/>')
        parts.append(_text(at + 18, 53, name, "start"))
        at += 18 + 7.5 * len(name) + 24
    for tick in scale.ticks():
        height = scale.y(tick)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}"'
            f' y1="{height:.1f}" y2="{height:.1f}"/>'
        )
        parts.append(_text(LEFT - 8, height + 4, _short(tick), "end", "soft"))
    return parts


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    given = f' class="{kind}"' if kind else ""
    return f'<text{given} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _whole(title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    ground = f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
    body = "\n".join(["<title>" + escape(title) + "</title>", f"<style>{STYLE}</style>", ground])
    return f"{head}\n{body}\n" + "\n".join(parts) + "\n</svg>\n"
