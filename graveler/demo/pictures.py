"""The report's two pictures as coordinates: the commit graph, and the ranges of each commit.

The template draws them. Both share an axis: one column for each commit of main.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import NamedTuple

from graveler.demo.history import History, Lane, RangeLife
from graveler.demo.story import DemoResult, HourResult
from graveler.model import Commit

_LEFT = 96.0
_RIGHT = 36.0
_WIDTH = 1150.0
_NARROWEST = 38.0
_NARROWEST_PICTURE = 900.0
_WIDEST = 84.0

_LANE = 46.0
_TOP = 34.0
_BELOW = 52.0
_DOTS = {"main-dot": 6.5, "again-dot": 6.5, "run-dot": 4.0, "stop-dot": 7.5}

_RANGES_TOP = 8.0
_TALLEST = 460.0
_ROW = 7.0
_THINNEST = 1.5
_GAP = 10.0
_BARS = 70.0
_SHARE_LABEL = 34.0


def number(value: float) -> str:
    """Return a coordinate to one digit."""
    return f"{value:.1f}".removesuffix(".0")


class Label(NamedTuple):
    """A text centred at a point."""

    x: float
    y: float
    text: str
    kind: str | None = None


@dataclass(frozen=True)
class Axis:
    """The positions of the commits of main, from left to right.

    Attributes:
        main: Its commits, oldest first.
        published: The hour that each of them published.
        stopped: Keys of the runs that were stopped once.
    """

    main: tuple[Commit, ...]
    published: Mapping[str, HourResult]
    stopped: frozenset[str]

    @classmethod
    def of(cls, main: tuple[Commit, ...], result: DemoResult) -> "Axis":
        """Return the axis of a demo's result."""
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

    def labels(self, y: float) -> list[Label]:
        """Return the hours below the columns, with the date when it changes."""
        labels = []
        date = ""
        for place, commit in enumerate(self.main):
            run = self.published.get(commit.id)
            if run is None:
                labels.append(Label(self.at(place), y, "start"))
                continue
            again = run.key in self.stopped
            kind = "again-text strong" if again else None
            labels.append(Label(self.at(place), y, f"{run.hour:%H:%M}", kind))
            if again or f"{run.hour:%b %d}" != date:
                date = f"{run.hour:%b %d}"
                labels.append(Label(self.at(place), y + 15, date, "date"))
        return labels


class Dot(NamedTuple):
    """A commit; `stopped` is the text next to a commit that a gate stopped."""

    kind: str
    x: float
    y: float
    size: float
    title: str
    stopped: str = ""


@dataclass
class Graph:
    """Main as one line, each run as a branch above it.

    Attributes:
        runs_y: Baseline of the word "runs".
        lines: The class and the path of each line.
    """

    main_y: float
    runs_y: float
    height: float
    labels: list[Label]
    lines: list[tuple[str, str]] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)


def draw_graph(history: History, axis: Axis, result: DemoResult) -> Graph:
    """Return the picture of main and its runs."""
    places = history.positions()
    last = len(history.main) - 1
    levels = _levels(history, places)
    main_y = _TOP + _LANE * max(levels, default=0)
    graph = Graph(main_y, main_y - _LANE + 4, main_y + _BELOW, axis.labels(main_y + 26))
    drawing = _LaneDrawing(graph, axis, places, float(last), _stopped(result))
    for lane, level in zip(history.lanes, levels, strict=True):
        drawing.draw(lane, main_y - level * _LANE)
    graph.lines.append(("main-line", f"M{_point(axis, 0, main_y)}L{_point(axis, last, main_y)}"))
    for commit in history.main:
        run = axis.published.get(commit.id)
        lines = [_title(commit)]
        if run is not None:
            lines.append(f"{run.rows} flights, attempt {run.attempt}")
            lines.append(f"{run.ranges_written} ranges written, {run.ranges_reused} reused")
        again = run is not None and run.key in axis.stopped
        drawing.dot("again-dot" if again else "main-dot", commit, main_y, "\n".join(lines))
    return graph


def _point(axis: Axis, place: float, y: float) -> str:
    """Return a point of a path."""
    return f"{number(axis.at(place))} {number(y)}"


def _stopped(result: DemoResult) -> dict[tuple[str, str], HourResult]:
    return {(run.key, str(run.attempt)): run for run in result.runs if run.state != "PUBLISHED"}


def _levels(history: History, places: dict[str, float]) -> list[int]:
    """Return the level of each lane above main: short lanes are low, and no two lanes overlap."""
    spans = [
        (places[lane.fork], places.get(lane.merge, len(history.main) - 0.5))
        for lane in history.lanes
    ]
    levels = [0] * len(spans)
    taken: dict[int, list[tuple[float, float]]] = {}
    for lane in sorted(range(len(spans)), key=lambda at: spans[at][1] - spans[at][0]):
        first, last = spans[lane]
        level = 1
        while any(first < end and start < last for start, end in taken.get(level, [])):
            level += 1
        taken.setdefault(level, []).append((first, last))
        levels[lane] = level
    return levels


@dataclass
class _LaneDrawing:
    graph: Graph
    axis: Axis
    places: dict[str, float]
    last: float
    stopped: dict[tuple[str, str], HourResult]

    def draw(self, lane: Lane, y: float) -> None:
        """Draw a run: from main up to its commits, and down to its merge into main."""
        commits = lane.commits
        lines, main_y = self.graph.lines, self.graph.main_y
        first, last = self.places[commits[0].id], self.places[commits[-1].id]
        stops = {at for at in range(len(commits)) if self._is_stop(commits, at)}
        again = any(at < len(commits) - 1 for at in stops)
        lines.append(("run-line", self._curve(self.places[lane.fork], main_y, first, y)))
        for at, (left, right) in enumerate(pairwise(commits)):
            kind = "parked-line" if at in stops else "run-line"
            lines.append((kind, self._line(self.places[left.id], self.places[right.id], y)))
        if lane.merge:
            kind = "again-line" if again else "run-line"
            lines.append((kind, self._curve(last, y, self.places[lane.merge], main_y)))
        else:
            lines.append(("parked-line", self._line(last, self.last, y)))
        for at, commit in enumerate(commits):
            if at in stops:
                run = self.stopped[_attempt(commit)]
                refused = ", ".join(verdict.gate for verdict in run.verdicts if verdict.refuses)
                text = f"{run.hour:%H:%M} stopped by {refused}; main stays as it is"
                title = f"{_title(commit)}\nstopped: {run.message}"
                self.dot("stop-dot", commit, y, title, text)
            else:
                self.dot("run-dot", commit, y, _title(commit))

    def dot(self, kind: str, commit: Commit, y: float, title: str, stopped: str = "") -> None:
        """Add a commit."""
        x = self.axis.at(self.places[commit.id])
        self.graph.dots.append(Dot(kind, x, y, _DOTS[kind], title, stopped))

    def _is_stop(self, commits: tuple[Commit, ...], at: int) -> bool:
        """Return whether a gate stopped the run with this commit as its head."""
        run = _attempt(commits[at])
        return run in self.stopped and run not in {_attempt(later) for later in commits[at + 1 :]}

    def _line(self, first: float, last: float, y: float) -> str:
        return f"M{_point(self.axis, first, y)}L{_point(self.axis, last, y)}"

    def _curve(self, place: float, y: float, to: float, to_y: float) -> str:
        start, end = self.axis.at(place), self.axis.at(to)
        bend = min((end - start) * 0.6, self.axis.column * 0.5)
        points = [(start, y), (start + bend, y), (end - bend, to_y), (end, to_y)]
        first, *others = [f"{number(x)} {number(height)}" for x, height in points]
        return f"M{first}C{', '.join(others)}"


def _attempt(commit: Commit) -> tuple[str, str]:
    return commit.metadata.get("graveler.run", ""), commit.metadata.get("graveler.attempt", "")


def _title(commit: Commit) -> str:
    key, attempt = _attempt(commit)
    of = f" of {key}, attempt {attempt}" if key and key not in commit.message else ""
    return f"{commit.message}{of}\n{commit.id[:12]}, {commit.created:%H:%M:%S} UTC"


class Bar(NamedTuple):
    """A range: a square for the commit that wrote it, and `length` more for commits that reuse it."""

    x: float
    y: float
    length: float
    title: str


class Share(NamedTuple):
    """The new and the reused range bytes of a commit, as heights."""

    x: float
    brought: float
    reused: float
    title: str
    text: str


@dataclass
class Ranges:
    """The picture of the ranges: a line for each range, a column for each commit of main.

    Attributes:
        names: The folders of the ranges and their heights.
    """

    cell: float
    thick: float
    top: float
    bottom: float
    height: float
    names: list[tuple[float, str]]
    bars: list[Bar]
    shares: list[Share]
    labels: list[Label]


def draw_ranges(history: History, axis: Axis) -> Ranges:
    """Return the picture of the ranges."""
    row = min(_ROW, max(_THINNEST, _TALLEST / max(len(history.ranges), 1)))
    cell = axis.column * 0.82
    names: list[tuple[float, str]] = []
    bars: list[Bar] = []
    y = _RANGES_TOP
    for name, lives in groupby(history.ranges, _folder):
        names.append((y + 10, name))
        for life in lives:
            length = axis.column * (life.last - life.first)
            bars.append(Bar(axis.at(life.first) - cell / 2, y, length, _range_title(life, history)))
            y += row
        y += _GAP
    top = y + 22
    return Ranges(
        cell=cell,
        thick=max(row - 1.2, row * 0.7),
        top=top,
        bottom=top + _BARS,
        height=top + _BARS + 52,
        names=names,
        bars=bars,
        shares=_shares(history, axis),
        labels=axis.labels(top + _BARS + 20),
    )


def _folder(life: RangeLife) -> str:
    """Return the table that a range begins in: its first folders, up to the year."""
    parts = life.info.min_key.decode(errors="replace").split("/")[:-1]
    digits = (at for at, part in enumerate(parts) if part[:1].isdigit())
    return "/".join(parts[: next(digits, len(parts))]) or "/"


def _range_title(life: RangeLife, history: History) -> str:
    first, last = (key.decode(errors="replace") for key in (life.info.min_key, life.info.max_key))
    count = life.last - life.first + 1
    return (
        f"range {life.info.id.hex()[:12]}: {life.info.count} entries, {life.info.size} bytes\n"
        f"{first}\n… {last}\n"
        f"written for {history.main[life.first].message}, "
        f"in {count} commit{'s' * (count > 1)} of main"
    )


def _shares(history: History, axis: Axis) -> list[Share]:
    shares = []
    for place, (brought, size) in enumerate(history.sizes):
        if not size:
            continue
        share = 1 - brought / size
        title = f"{history.main[place].message}: {size - brought} of {size} bytes reused"
        text = f"{share:.0%}" if axis.column >= _SHARE_LABEL else ""
        shares.append(Share(axis.at(place), _BARS - _BARS * share, _BARS * share, title, text))
    return shares
