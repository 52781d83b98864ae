"""The cost-quality curve as an SVG, written by hand: no plotting library for six lines."""

from collections.abc import Mapping, Sequence
from html import escape

from classifier.metrics import Array

Curves = Mapping[str, tuple[Array, Array]]
"""Name -> (share of calls to the strong model, share of the gap recovered)."""

_SIZE = 420
_MARGIN = 56
_COLOURS = ("#0b6e99", "#d9730d", "#9b9a97", "#448361", "#9065b0", "#c14c8a")
_POINTS = 200  # of a curve at most; more would not be seen


def curve_svg(title: str, curves: Curves) -> str:
    """Draw `curves` into one square, a line each, with a legend."""
    side = _SIZE + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{side}" height="{side}" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_MARGIN}" y="24" font-size="15">{escape(title)}</text>',
        *_axes(),
    ]
    for at, (name, (shares, recovered)) in enumerate(curves.items()):
        colour = _COLOURS[at % len(_COLOURS)]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{_line(shares, recovered)}"/>'
        )
        y = _MARGIN + _SIZE - 16 * (len(curves) - at)
        parts.append(
            f'<text x="{_MARGIN + _SIZE - 8}" y="{y}" text-anchor="end" fill="{colour}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def _axes() -> Sequence[str]:
    box = f'x="{_MARGIN}" y="{_MARGIN}" width="{_SIZE}" height="{_SIZE}"'
    parts = [f'<rect {box} fill="none" stroke="#888"/>']
    for step in range(0, 101, 20):
        x, y = _place(step / 100, step / 100)
        parts.append(f'<text x="{x:.0f}" y="{_MARGIN + _SIZE + 16}" text-anchor="middle">{step}</text>')
        parts.append(f'<text x="{_MARGIN - 6}" y="{y + 4:.0f}" text-anchor="end">{step}</text>')
    middle = _MARGIN + _SIZE / 2
    below = f'x="{middle}" y="{_MARGIN + _SIZE + 38}" text-anchor="middle"'
    beside = f'transform="rotate(-90)" x="{-middle}" y="16" text-anchor="middle"'
    return [
        *parts,
        f"<text {below}>calls to the strong model, %</text>",
        f"<text {beside}>gap recovered, %</text>",
    ]


def _line(shares: Array, recovered: Array) -> str:
    step = max(1, len(shares) // _POINTS)
    kept = [*range(0, len(shares) - 1, step), len(shares) - 1]
    points = (_place(float(shares[at]), float(recovered[at])) for at in kept)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _place(share: float, recovered: float) -> tuple[float, float]:
    bounded = min(1.1, max(-0.1, recovered))
    return _MARGIN + share * _SIZE, _MARGIN + (1.0 - bounded) * _SIZE
