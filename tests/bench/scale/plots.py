"""Line plots as SVG, drawn without a library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 640
_HEIGHT = 320
_LEFT = 70
_RIGHT = 20
_TOP = 40
_BOTTOM = 50
_COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#7570b3")
_MOST_POINTS = 200


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over a common axis, whose points are one apart.

    Attributes:
        name: Name of its file.
        title: The title above it.
        axes: The labels of the x axis and the y axis.
        lines: The values of each line by its name.
    """

    name: str
    title: str
    axes: tuple[str, str]
    lines: Mapping[str, Sequence[float]]

    def svg(self) -> str:
        """Return the drawing."""
        most = max(max(values) for values in self.lines.values()) or 1
        count = max(len(values) for values in self.lines.values())
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
            _text(_WIDTH / 2, 20, self.title, "middle"),
            _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, self.axes[0], "middle"),
            f'<g transform="rotate(-90)">{_text(-_HEIGHT / 2, 16, self.axes[1], "middle")}</g>',
        ]
        for share in (0, 0.25, 0.5, 0.75, 1):
            y = _y(share)
            parts.append(
                f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd" fill="none"/>'
            )
            parts.append(_text(_LEFT - 6, y + 4, _number(share * most), "end"))
            parts.append(_text(_x(share), _HEIGHT - 30, _number(share * count), "middle"))
        for number, (name, values) in enumerate(self.lines.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            step = max(1, len(values) // _MOST_POINTS)
            shown = [*range(0, len(values) - 1, step), len(values) - 1]
            points = " ".join(
                f"{_x((at + 1) / count):.1f},{_y(values[at] / most):.1f}" for at in shown
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
            y = _TOP + 16 * number
            parts.append(f'<rect x="{_LEFT + 10}" y="{y}" width="12" height="3" fill="{colour}"/>')
            parts.append(_text(_LEFT + 28, y + 6, name, "start"))
        return "\n".join([*parts, "</svg>\n"])


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"
