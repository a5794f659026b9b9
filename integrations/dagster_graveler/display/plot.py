"""A small drawing of what changed where, that fits into Dagster's metadata."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

__all__ = ["Bar", "plot"]

_ROWS: Final = 12
_NAME: Final = 44
_LEFT, _WIDE, _ROW, _TOP = 330, 300, 22, 30
_COLORS: Final = {"added": "#2e9e5b", "changed": "#d9a514", "removed": "#cf4b3f"}
_FONT: Final = "font-family='ui-monospace,Menlo,monospace' font-size='12'"


class Bar(NamedTuple):
    """The files of a folder that differ."""

    folder: str
    added: int
    changed: int
    removed: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.added + self.changed + self.removed


def plot(bars: Sequence[Bar], *, more: bool = False) -> str:
    """Return Markdown with a drawing: a bar a folder, the largest ones, in colours by kind.

    Args:
        bars: Folders in the order to draw them.
        more: Whether not all files were counted.
    """
    drawing = _draw(_folded(bars), more=more).encode()
    return f"![files changed, by folder](data:image/svg+xml;base64,{b64encode(drawing).decode()})"


def _folded(bars: Sequence[Bar]) -> list[Bar]:
    """Keep the folders with the most files and make one bar of all others."""
    if len(bars) <= _ROWS:
        return list(bars)
    largest = {bar.folder for bar in sorted(bars, key=lambda bar: -bar.total)[: _ROWS - 1]}
    rest = [bar for bar in bars if bar.folder not in largest]
    return [
        *(bar for bar in bars if bar.folder in largest),
        Bar(
            f"{len(rest)} other folders",
            sum(bar.added for bar in rest),
            sum(bar.changed for bar in rest),
            sum(bar.removed for bar in rest),
        ),
    ]


def _draw(bars: Sequence[Bar], *, more: bool) -> str:
    longest = max((bar.total for bar in bars), default=1) or 1
    height = _TOP + _ROW * len(bars) + (20 if more else 6)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_LEFT + _WIDE + 60}' height='{height}'>",
        "<rect width='100%' height='100%' fill='#ffffff'/>",
        *_legend(),
    ]
    for number, bar in enumerate(bars):
        parts.extend(_row(bar, _TOP + number * _ROW, longest))
    if more:
        parts.append(_text(8, height - 6, "… and more than could be counted"))
    return "".join((*parts, "</svg>"))


def _legend() -> list[str]:
    parts = []
    for number, (kind, color) in enumerate(_COLORS.items()):
        left = _LEFT + number * 96
        parts.append(f"<rect x='{left}' y='8' width='10' height='10' fill='{color}'/>")
        parts.append(_text(left + 15, 17, kind))
    return parts


def _row(bar: Bar, top: int, longest: int) -> list[str]:
    name = bar.folder or "/"
    short = name if len(name) <= _NAME else f"…{name[1 - _NAME :]}"
    parts = [_text(_LEFT - 8, top + 13, short, anchor="end")]
    left = float(_LEFT)
    for kind, color in _COLORS.items():
        wide = _WIDE * getattr(bar, kind) / longest
        if wide:
            parts.append(
                f"<rect x='{left:.1f}' y='{top + 2}' width='{max(wide, 1.5):.1f}' "
                f"height='{_ROW - 7}' fill='{color}'/>"
            )
        left += wide
    parts.append(_text(round(left) + 6, top + 13, str(bar.total)))
    return parts


def _text(x: int, y: int, text: str, *, anchor: str = "start") -> str:
    return (
        f"<text x='{x}' y='{y}' text-anchor='{anchor}' fill='#333333' {_FONT}>{escape(text)}</text>"
    )
