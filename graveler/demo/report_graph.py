"""The commit graph: main as one line, each run as a branch above it."""

from typing import Final

from graveler.demo.report_axis import Axis
from graveler.demo.report_history import History, Lane
from graveler.demo.report_markup import Markup, number, tag
from graveler.demo.story import DemoResult
from graveler.model import Commit

__all__ = ["draw_graph"]

_LANE: Final = 46.0
_TOP: Final = 34.0
_BELOW: Final = 52.0
_MAIN_DOT: Final = 6.5
_RUN_DOT: Final = 4.0
_STOP_DOT: Final = 7.5


def draw_graph(history: History, axis: Axis, result: DemoResult) -> Markup:
    """Return the picture of main and its runs."""
    return _Graph(history, axis, result).draw()


def _levels(history: History, places: dict[str, float]) -> list[int]:
    """Return how far above main each lane is: short ones near, none over another."""
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


class _Graph:
    def __init__(self, history: History, axis: Axis, result: DemoResult) -> None:
        self._history = history
        self._axis = axis
        self._places = history.positions()
        self._levels = _levels(history, self._places)
        self._main_y = _TOP + _LANE * max(self._levels, default=0)
        self._stopped = {
            (run.key, str(run.attempt)): run for run in result.runs if run.state != "PUBLISHED"
        }

    def draw(self) -> Markup:
        lines: list[Markup] = []
        dots: list[Markup] = []
        for lane, level in zip(self._history.lanes, self._levels, strict=True):
            self._draw_lane(lane, self._main_y - level * _LANE, lines, dots)
        lines.append(self._line("main-line", [(0, self._main_y), (self._last, self._main_y)]))
        dots += [self._main_dot(commit) for commit in self._history.main]
        height = self._main_y + _BELOW
        return tag(
            "svg",
            tag("title", "Commits of main and of the runs, in the order of time"),
            tag("text", "main", x=0, y=self._main_y + 4, class_="strong"),
            *([tag("text", "runs", x=0, y=self._main_y - _LANE + 4)] * bool(self._levels)),
            *lines,
            *dots,
            *self._axis.labels(self._main_y + 26),
            role="img",
            width=self._axis.width,
            height=height,
            viewBox=f"0 0 {number(self._axis.width)} {number(height)}",
        )

    @property
    def _last(self) -> float:
        return float(len(self._history.main) - 1)

    def _draw_lane(self, lane: Lane, y: float, lines: list[Markup], dots: list[Markup]) -> None:
        """Draw a run: from main up to its commits, and down to where it was published."""
        commits = lane.commits
        first, last = self._places[commits[0].id], self._places[commits[-1].id]
        stops = [at for at in range(len(commits)) if self._is_stop(commits, at)]
        again = any(at < len(commits) - 1 for at in stops)
        lines.append(self._curve("run-line", self._places[lane.fork], self._main_y, first, y))
        for at in range(len(commits) - 1):
            kind = "parked-line" if at in stops else "run-line"
            ends = [(self._places[commit.id], y) for commit in commits[at : at + 2]]
            lines.append(self._line(kind, ends))
        if lane.merge:
            kind = "again-line" if again else "run-line"
            lines.append(self._curve(kind, last, y, self._places[lane.merge], self._main_y))
        else:
            lines.append(self._line("parked-line", [(last, y), (self._last, y)]))
        for at, commit in enumerate(commits):
            if at in stops:
                dots.append(self._stop_dot(commit, y))
            else:
                dots.append(self._dot("run-dot", commit, y, _RUN_DOT, _title(commit)))

    def _is_stop(self, commits: tuple[Commit, ...], at: int) -> bool:
        """Return whether a gate stopped the run with this commit as its head."""
        run = _attempt(commits[at])
        return run in self._stopped and run not in {_attempt(later) for later in commits[at + 1 :]}

    def _stop_dot(self, commit: Commit, y: float) -> Markup:
        run = self._stopped[_attempt(commit)]
        x, arm = self._axis.at(self._places[commit.id]), 2.6
        refused = ", ".join(said.gate for said in run.verdicts if said.refuses)
        room = x < self._axis.width / 2
        return tag(
            "g",
            tag("title", f"{_title(commit)}\nstopped: {run.message}"),
            tag("circle", cx=x, cy=y, r=_STOP_DOT, class_="stop-dot"),
            tag("line", x1=x - arm, y1=y - arm, x2=x + arm, y2=y + arm, class_="stop-cross"),
            tag("line", x1=x - arm, y1=y + arm, x2=x + arm, y2=y - arm, class_="stop-cross"),
            tag(
                "text",
                f"{run.hour:%H:%M} stopped by {refused}; main stays as it is",
                x=x + (14 if room else -14),
                y=y - 9,
                text_anchor="start" if room else "end",
                class_="stop-text",
            ),
        )

    def _main_dot(self, commit: Commit) -> Markup:
        run = self._axis.published.get(commit.id)
        lines = [_title(commit)]
        if run is not None:
            lines.append(f"{run.rows} flights, attempt {run.attempt}")
            lines.append(f"{run.ranges_written} ranges written, {run.ranges_reused} reused")
        again = run is not None and run.key in self._axis.stopped
        kind = "again-dot" if again else "main-dot"
        return self._dot(kind, commit, self._main_y, _MAIN_DOT, "\n".join(lines))

    def _dot(self, kind: str, commit: Commit, y: float, size: float, title: str) -> Markup:
        x = self._axis.at(self._places[commit.id])
        return tag("circle", tag("title", title), cx=x, cy=y, r=size, class_=kind)

    def _line(self, kind: str, points: list[tuple[float, float]]) -> Markup:
        path = "L".join(f"{number(self._axis.at(place))} {number(y)}" for place, y in points)
        return tag("path", d=f"M{path}", class_=kind)

    def _curve(self, kind: str, place: float, y: float, to: float, to_y: float) -> Markup:
        start, end = self._axis.at(place), self._axis.at(to)
        bend = min((end - start) * 0.6, self._axis.column * 0.5)
        points = [(start, y), (start + bend, y), (end - bend, to_y), (end, to_y)]
        first, *others = [f"{number(x)} {number(height)}" for x, height in points]
        return tag("path", d=f"M{first}C{', '.join(others)}", class_=kind)


def _attempt(commit: Commit) -> tuple[str, str]:
    return commit.metadata.get("graveler.run", ""), commit.metadata.get("graveler.attempt", "")


def _title(commit: Commit) -> str:
    key, attempt = _attempt(commit)
    of = f" of {key}, attempt {attempt}" if key and key not in commit.message else ""
    return f"{commit.message}{of}\n{commit.id[:12]}, {commit.created:%H:%M:%S} UTC"
