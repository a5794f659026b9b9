"""The axis that the report's pictures share: one column for each commit of main."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from graveler.demo.report_markup import Markup, tag
from graveler.demo.story import DemoResult, HourResult
from graveler.model import Commit

__all__ = ["Axis"]

_LEFT: Final = 96.0
_RIGHT: Final = 36.0
_WIDTH: Final = 1150.0
_NARROWEST: Final = 38.0
_NARROWEST_PICTURE: Final = 900.0
_WIDEST: Final = 84.0


@dataclass(frozen=True)
class Axis:
    """Where the commits of main are, from left to right.

    Attributes:
        main: Its commits, oldest first.
        published: The hour that each of them brought.
        stopped: Keys of the runs that were stopped once.
    """

    main: tuple[Commit, ...]
    published: Mapping[str, HourResult]
    stopped: frozenset[str]

    @classmethod
    def of(cls, main: tuple[Commit, ...], result: DemoResult) -> "Axis":
        """Return the axis of what a demo did."""
        return cls(
            main,
            {run.commit: run for run in result.runs if run.state == "PUBLISHED"},
            frozenset(run.key for run in result.runs if run.state != "PUBLISHED"),
        )

    @property
    def column(self) -> float:
        """Width of a column."""
        room = (_WIDTH - _LEFT - _RIGHT) / max(len(self.main) - 1, 1)
        return min(max(room, _NARROWEST), _WIDEST)

    @property
    def width(self) -> float:
        """Width of a picture."""
        return max(_LEFT + self.column * (len(self.main) - 1) + _RIGHT, _NARROWEST_PICTURE)

    def at(self, place: float) -> float:
        """Return the coordinate of a position in main."""
        return _LEFT + self.column * place

    def labels(self, y: float) -> list[Markup]:
        """Return the hours below the columns, and the date where it changes."""
        marks = []
        date = ""
        for place, commit in enumerate(self.main):
            run = self.published.get(commit.id)
            if run is None:
                marks.append(_text(self.at(place), y, "start"))
                continue
            again = run.key in self.stopped
            kind = "again-text strong" if again else None
            marks.append(_text(self.at(place), y, f"{run.hour:%H:%M}", kind))
            if again or f"{run.hour:%b %d}" != date:
                date = f"{run.hour:%b %d}"
                marks.append(_text(self.at(place), y + 15, date, "date"))
        return marks


def _text(x: float, y: float, text: str, kind: str | None = None) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor="middle", class_=kind)
