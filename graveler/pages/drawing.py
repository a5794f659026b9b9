"""What pages draw, as SVG without styles of its own: classes of the style sheet give the colours.

Each picture has a text for readers who do not see it, and each part of it a title.
"""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from graveler.display import printable

_SQUARE, _GAP, _LABEL = 18, 3, 90
_WIDE, _TALL = 160, 32


class Square(NamedTuple):
    """A place of a calendar, or a part of a bar.

    Attributes:
        kind: Its class: good, bad, warn, main, quiet, none.
        title: What it stands for.
        href: Where it leads; "" for nowhere.
        sign: A character that says without colour what it is.
        size: Its share of a bar.
    """

    kind: str
    title: str
    href: str = ""
    sign: str = ""
    size: float = 1.0


def calendar(
    rows: Sequence[tuple[str, Sequence[Square]]], heads: Sequence[str], *, label: str
) -> Markup:
    """Return a calendar: a line for each row, with a square for each head.

    Args:
        rows: The name of each row, and its squares.
        heads: What stands above the squares; "" for nothing.
    """
    step = _SQUARE + _GAP
    parts = [
        _text(_LABEL + at * step + _SQUARE / 2, 11, head, "middle")
        for at, head in enumerate(heads)
        if head
    ]
    for number, (name, squares) in enumerate(rows, 1):
        top = number * step - _GAP
        parts.append(_text(0, top + 13, name))
        for at, square in enumerate(squares):
            left = _LABEL + at * step
            shape = _rectangle(left, top, _SQUARE, _SQUARE, square.kind)
            sign = _text(left + _SQUARE / 2, top + 13, square.sign, "middle", "sign")
            parts.append(_part(square, shape + sign))
    columns = max([len(heads), *(len(squares) for _, squares in rows)])
    return _picture(_LABEL + columns * step, (len(rows) + 1) * step, label, parts, "calendar")


def bar(parts: Sequence[Square], *, label: str, width: int = 240) -> Markup:
    """Return a bar whose parts have the shares of their sizes."""
    total, left, shapes = sum(part.size for part in parts), 0.0, []
    for part in parts:
        wide = width * part.size / total if total else 0.0
        shapes.append(_part(part, _rectangle(left, 0, wide, 12, part.kind)))
        left += wide
    return _picture(width, 12, label, shapes, "bar")


def curve(values: Sequence[float | None], *, label: str, marks: Sequence[int] = ()) -> Markup:
    """Return a small curve, from its least to its largest value; None interrupts it.

    Args:
        marks: The positions that get a dot, as those of refusals.
    """
    known = [value for value in values if value is not None]
    if not known:
        return _picture(_WIDE, _TALL, label, [], "curve")
    low, high = min(known), max(known)
    across = (_WIDE - 8) / max(len(values) - 1, 1)

    def place(at: int, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.5
        return 4 + at * across, _TALL - 4 - share * (_TALL - 8)

    lines: list[list[str]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            x, y = place(at, value)
            lines[-1].append(f"{x:.1f} {y:.1f}")
    shapes = [
        Markup('<path d="M{}" class="line"/>').format("L".join(line if line[1:] else line * 2))
        for line in lines
        if line
    ]
    for at in marks:
        value = values[at]
        if value is not None:
            x, y = place(at, value)
            shapes.append(
                Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3" class="bad"/>').format(x, y)
            )
    return _picture(_WIDE, _TALL, label, shapes, "curve")


def _picture(width: float, height: float, label: str, parts: Sequence[str], kind: str) -> Markup:
    opened = Markup('<svg class="{}" width="{:g}" height="{:g}" role="group" aria-label="{}">')
    start = opened.format(kind, round(width, 1), round(height, 1), printable(label))
    return start + Markup("").join(parts) + Markup("</svg>")


# A calendar has thousands of parts, and % takes a third of the time of `Markup.format`.
def _part(square: Square, shape: Markup) -> Markup:
    label = printable(square.title)
    shown = Markup("<title>%s</title>") % label + shape
    if square.href:
        return Markup('<a href="%s">%s</a>') % (square.href, shown)
    return Markup('<g role="img" aria-label="%s">%s</g>') % (label, shown)


def _rectangle(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    shape = Markup('<rect x="%g" y="%g" width="%g" height="%g" class="%s"/>')
    return shape % (round(x, 1), round(y, 1), round(width, 1), height, kind)


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> Markup:
    shape = Markup('<text x="%g" y="%g" text-anchor="%s" class="%s">%s</text>')
    return shape % (x, y, anchor, kind, printable(text))
