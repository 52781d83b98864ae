"""What `bench.gsm_vllm` measured, as an SVG written by hand: two panels of lines."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Name of a line -> its points: tokens of context, seconds."""

_WIDTH: Final = 400
_HEIGHT: Final = 300
_MARGIN: Final = 60
_COLOURS: Final = ("#9b9a97", "#0b6e99", "#448361", "#d9730d", "#9065b0")
_TICKS: Final = 5


def panels_svg(panels: Mapping[str, Series]) -> str:
    """Draw one panel a title, side by side, each with axes from zero and a legend."""
    step, height = _WIDTH + 2 * _MARGIN, _HEIGHT + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{step * len(panels)}" height="{height}">',
        "<style>text { font: 12px sans-serif; }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for at, (title, series) in enumerate(panels.items()):
        parts += [
            f'<g transform="translate({at * step + _MARGIN},{_MARGIN})">',
            *_panel(title, series),
            "</g>",
        ]
    return "\n".join([*parts, "</svg>\n"])


def _panel(title: str, series: Series) -> Sequence[str]:
    points = [point for line in series.values() for point in line]
    most_x, most_y = max(x for x, _ in points), max(y for _, y in points)
    parts = [
        f'<text x="0" y="-20" font-weight="bold">{escape(title)}</text>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#888"/>',
        f'<text x="{_WIDTH / 2:.0f}" y="{_HEIGHT + 38}" text-anchor="middle">tokens of context</text>',
        f'<text transform="rotate(-90)" x="{-_HEIGHT / 2:.0f}" y="-40" text-anchor="middle">seconds</text>',
    ]
    for tick in range(_TICKS + 1):
        part = tick / _TICKS
        below = f'x="{part * _WIDTH:.0f}" y="{_HEIGHT + 16}" text-anchor="middle"'
        beside = f'x="-6" y="{(1 - part) * _HEIGHT + 4:.0f}" text-anchor="end"'
        parts += [f"<text {below}>{part * most_x:.0f}</text>", f"<text {beside}>{part * most_y:.1f}</text>"]
    for at, (name, line) in enumerate(series.items()):
        colour = _COLOURS[at % len(_COLOURS)]
        path = " ".join(f"{x / most_x * _WIDTH:.1f},{(1 - y / most_y) * _HEIGHT:.1f}" for x, y in line)
        parts += [
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>',
            f'<text x="8" y="{16 * (at + 1)}" fill="{colour}">{escape(name)}</text>',
        ]
    return parts
