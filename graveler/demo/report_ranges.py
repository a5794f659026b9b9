"""Which ranges each commit wrote, and which it took over from the commit before."""

from itertools import groupby
from typing import Final

from graveler.demo.report_axis import Axis
from graveler.demo.report_history import History, RangeLife
from graveler.demo.report_markup import Markup, number, tag
from graveler.model import Commit

__all__ = ["draw_ranges"]

_TOP: Final = 8.0
_TALLEST: Final = 460.0
_ROW: Final = 7.0
_THINNEST: Final = 1.5
_GAP: Final = 10.0
_BARS: Final = 70.0
_SHARE_LABEL: Final = 34.0


def draw_ranges(history: History, axis: Axis) -> Markup:
    """Return the picture: a line for each range, a column for each commit of main."""
    groups = [(name, list(lives)) for name, lives in groupby(history.ranges, _folder)]
    row = min(_ROW, max(_THINNEST, _TALLEST / max(len(history.ranges), 1)))
    marks: list[Markup] = []
    y = _TOP
    for name, lives in groups:
        marks.append(tag("text", name, x=0, y=y + 10))
        for life in lives:
            marks.append(_draw_life(life, axis, y, row, history.main))
            y += row
        y += _GAP
    bars = y + 22
    height = bars + _BARS + 52
    return tag(
        "svg",
        tag("title", "Ranges written and reused by each commit of main"),
        *marks,
        *_draw_shares(history, axis, bars),
        *axis.labels(bars + _BARS + 20),
        role="img",
        width=axis.width,
        height=height,
        viewBox=f"0 0 {number(axis.width)} {number(height)}",
    )


def _folder(life: RangeLife) -> str:
    """Return the table that a range begins in: its first folders, up to the year."""
    parts = life.info.min_key.decode(errors="replace").split("/")[:-1]
    digits = (at for at, part in enumerate(parts) if part[:1].isdigit())
    return "/".join(parts[: next(digits, len(parts))]) or "/"


def _draw_life(
    life: RangeLife, axis: Axis, y: float, row: float, main: tuple[Commit, ...]
) -> Markup:
    cell = axis.column * 0.82
    left = axis.at(life.first) - cell / 2
    thick = max(row - 1.2, row * 0.7)
    first, last = (key.decode(errors="replace") for key in (life.info.min_key, life.info.max_key))
    count = life.last - life.first + 1
    title = (
        f"range {life.info.id.hex()[:12]}: {life.info.count} entries, {life.info.size} bytes\n"
        f"{first}\n… {last}\n"
        f"written for {main[life.first].message}, in {count} commit{'s' * (count > 1)} of main"
    )
    shapes = []
    if count > 1:
        length = axis.column * (count - 1)
        shapes.append(
            tag("rect", x=left, y=y, width=length + cell, height=thick, rx=1.5, class_="reused")
        )
    shapes.append(tag("rect", x=left, y=y, width=cell, height=thick, rx=1.5, class_="new"))
    return tag("g", tag("title", title), *shapes)


def _draw_shares(history: History, axis: Axis, top: float) -> list[Markup]:
    """Return a bar for each commit: how much of its ranges' bytes was there before."""
    bottom = top + _BARS
    marks = [
        tag("text", "bytes reused", x=0, y=top + 10),
        tag(
            "line",
            x1=axis.at(-0.4),
            x2=axis.at(len(history.main) - 0.6),
            y1=bottom,
            y2=bottom,
            class_="grid",
        ),
    ]
    width = axis.column * 0.82
    for place, (brought, size) in enumerate(history.sizes):
        if not size:
            continue
        share = 1 - brought / size
        x, tall = axis.at(place) - width / 2, _BARS * share
        title = f"{history.main[place].message}: {size - brought} of {size} bytes reused"
        marks.append(
            tag(
                "g",
                tag("title", title),
                tag("rect", x=x, y=top, width=width, height=_BARS - tall, class_="new", rx=1.5),
                tag(
                    "rect", x=x, y=bottom - tall, width=width, height=tall, class_="reused", rx=1.5
                ),
            )
        )
        if axis.column >= _SHARE_LABEL:
            label = tag(
                "text",
                f"{share:.0%}",
                x=axis.at(place),
                y=top - 5,
                text_anchor="middle",
                class_="strong",
            )
            marks.append(label)
    return marks
