"""What objects show of themselves, in HTML, SVG and lines of text, for notebooks and pages.

Data comes in and text goes out. Nothing here reads a lake, and times are absolute, because a saved
notebook is read later.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple, ParamSpec, TypeVar

SHOWN = 20
"""The most rows of a list that is shown."""

_GOOD, _BAD, _WARN, _MAIN, _QUIET = "#16794c", "#c02f26", "#96690a", "#2456c8", "#6b7684"
_TONES = {"main": _MAIN, "side": _QUIET, "stopped": _BAD}
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_HASH = re.compile("[0-9a-f]{64}")
_COLORS = {"added": _GOOD, "changed": _WARN, "removed": _BAD, "PARKED": _BAD, "PUBLISHED": _GOOD}
_KIB = 1024
_LONGEST, _LONGEST_LABEL = 300, 80
_MARGIN, _STEP, _TALL = 14, 16, 24
_REASONS = 8
_UNITS = ("KiB", "MiB", "GiB", "TiB")

# By the name of the class, as `title=attribute`; what follows the bar is left out in lists.
_COLUMNS = {
    "BranchRecord": "branch=name head=commit_id last=moves hidden |",
    "Branch": "branch=name head |",
    "Change": "change=kind path before after |",
    "Commit": "commit=id time=created committer message | parents metadata",
    "Conflict": "path base source dest source_change dest_change |",
    "Entry": "path size type=content_type written=mtime | checksum address metadata",
    "Judgement": "into action run attempt commit time=at verdicts | target reused",
    "Lake": "lake=location |",
    "MergePreview": "source dest already added changed removed conflicts=conflict_count |",
    "MergeResult": "commit already |",
    "Prefix": "path |",
    "PublishResult": "commit already verdicts |",
    "Ref": "ref=name commit |",
    "RefMove": "ref position time=at action before after actor |",
    "Repository": "repository=name storage default=stores.default_branch |",
    "Run": "run=key attempt record.state branch record.into record.reason record.verdicts |",
    "RunRecord": "run=key state attempt into commit opened reason | branch base verdicts inputs metadata",
    "Trial": "trial=name commit verdicts |",
    "Verdict": "verdict= facts seconds |",
    "View": "view=name |",
    "Why": "path entry commit made run=key attempt step verdicts inputs origin |",
}
_P = ParamSpec("_P")
_T = TypeVar("_T")
_Place = tuple[int, int]  # a column and a row


class Cell(NamedTuple):
    """A text of a table; the title is shown when a reader points at it."""

    text: str
    title: str = ""
    color: str = ""
    number: bool = False


Row = Mapping[str, Sequence[Cell]]
"""The cells of a row by the titles of their columns; those of one column stand below each other."""


def printable(text: str) -> str:
    """Return text with escaped control characters: it cannot move the cursor or forge a line."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def size_text(size: int) -> str:
    """Return a number of bytes in the largest fitting unit."""
    if size < _KIB:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / _KIB**power:.1f} {_UNITS[power - 1]}"


def title(message: str) -> str:
    """Return the first line of a commit's message."""
    return next(iter(message.splitlines()), "(no message)")


def _plain(value: Any) -> Cell:
    text = str(value)
    if _HASH.fullmatch(text):
        return Cell(text[:12], text)
    return Cell(_cut(text, _LONGEST))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _verdict(verdict: Any) -> Cell:
    if verdict.passed:
        return Cell(f"✓ {verdict.gate}", color=_GOOD)
    mark, color = ("✕", _BAD) if verdict.refuses else ("!", _WARN)
    return _plain(f"{mark} {verdict.gate}: {verdict.reason}")._replace(color=color)


_FORMS: Mapping[str, Callable[[Any], Cell]] = {
    "NoneType": lambda _: Cell(""),
    "bool": lambda value: Cell("yes" if value else ""),
    "int": lambda value: Cell(f"{value:,}", number=True),
    "float": lambda value: Cell(f"{value:.3f}", number=True),
    "datetime": lambda value: Cell(f"{value:%Y-%m-%d %H:%M:%S}", value.isoformat()),
    "dict": lambda value: _plain(", ".join(f"{name}={each}" for name, each in value.items())),
    "ChangeKind": lambda value: Cell(value, color=_COLORS[value]),
    "ChangedBy": lambda value: Cell(f"{value.commit[:12]} {value.run}".rstrip(), value.commit),
    "Commit": lambda value: Cell(f"{value.id[:12]} {title(value.message)}", value.id),
    "Entry": lambda value: Cell(size_text(value.size), f"{value.size:,} B", number=True),
    "Input": lambda value: Cell(f"{value.commit[:12]} {value.prefix}".rstrip(), value.commit),
    "Move": lambda value: Cell(f"{value.action} by {value.actor or 'unknown'}", value.commit),
    "RunState": lambda value: Cell(value, color=_COLORS.get(value, "")),
    "Verdict": _verdict,
}


def _cells(name: str, value: Any) -> Sequence[Cell]:
    if isinstance(value, tuple) and type(value).__name__ not in _FORMS:
        return [cell for item in value for cell in _cells(name, item)]
    if isinstance(value, int) and name == "size":
        return [Cell(size_text(value), f"{value:,} B", number=True)]
    kinds = (kind.__name__ for kind in type(value).__mro__)
    return [next((_FORMS[kind] for kind in kinds if kind in _FORMS), _plain)(value)]


def row_of(item: Any, *, listed: bool = True) -> Row:
    """Return what an object shows of itself: in a list, or more if it stands alone."""
    kinds = (kind.__name__ for kind in type(item).__mro__)
    columns = next((_COLUMNS[kind] for kind in kinds if kind in _COLUMNS), "value=")
    row = {}
    for column in (columns.partition("|")[0] if listed else columns.replace("|", "")).split():
        name, equals, attribute = column.partition("=")
        value = item if equals and not attribute else attrgetter(attribute or name)(item)
        value = value[-1:] if attribute == "moves" else value
        row[name.rpartition(".")[2]] = _cells(name, value)
    return row


def _escaped(text: str) -> str:
    return printable(text).translate(_ESCAPES)


def _html(cells: Sequence[Cell]) -> str:
    shown = []
    for text, title, color, _ in cells:
        marks = f' title="{_escaped(title)}"' if title else ""
        marks += f' style="color:{color}"' if color else ""
        lines = "<br/>".join(map(_escaped, text.split("\n")))
        shown.append(f"<span{marks}>{lines}</span>" if marks else lines)
    return "<br/>".join(shown)


def _box(tag: str, html: str, *, number: bool = False) -> str:
    # a notebook's own style puts every text to the right
    return f'<{tag} style="text-align:{"right" if number else "left"}">{html}</{tag}>'


def _column(cells: Sequence[Cell]) -> str:
    return _box("td", _html(cells), number=any(cell.number for cell in cells))


def _line(boxes: Iterable[str]) -> str:
    return f"<tr>{''.join(boxes)}</tr>"


def _filled(row: Row) -> set[str]:
    return {name for name, cells in row.items() if any(cell.text for cell in cells)}


def table(rows: Sequence[Row], *, more: bool = False) -> str:
    """Return the HTML of rows below the titles of their columns; empty columns are left out."""
    if not rows:
        return "<p>none</p>"
    filled = set[str]().union(*map(_filled, rows))
    names = [name for name in dict.fromkeys(chain(*rows)) if name in filled]
    lines = [_line(_box("th", _escaped(name)) for name in names)]
    lines += [_line(_column(row.get(name, ())) for name in names) for row in rows]
    return f"<table>{''.join(lines)}</table>{'<p>… and more</p>' if more else ''}"


def card(row: Row) -> str:
    """Return the HTML of one object: a line for each title that has a value."""
    filled = [(name, row[name]) for name in row if name in _filled(row)]
    lines = [
        _line([_box("th", _escaped(name)), _box("td", _html(cells))]) for name, cells in filled
    ]
    return f"<table>{''.join(lines)}</table>"


def listed(items: Iterable[Any]) -> str:
    """Return the HTML of the first objects of a list."""
    rows = [row_of(item) for item in islice(items, SHOWN + 1)]
    return table(rows[:SHOWN], more=len(rows) > SHOWN)


class Shown:
    """An object that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return card(row_of(self, listed=False))


class Rows(tuple[_T, ...]):
    """A tuple that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return listed(self)


class Listing(Iterator[_T]):
    """An iterator that a notebook shows by its first items, without taking them.

    It shows what a new call gives, so that it shows the same before and after it was read.
    """

    def __init__(self, call: Callable[[], Iterator[_T]], name: str) -> None:
        self._call = call
        self._name = name
        self._items = call()

    def __iter__(self) -> Iterator[_T]:
        return self._items  # a loop then runs as fast as without the listing

    def __next__(self) -> _T:
        return next(self._items)

    def __repr__(self) -> str:
        return f"<{self._name}(): loops, next() and list() read it>"

    def _repr_html_(self) -> str:
        return listed(self._call())


def listing(call: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
    """Return the function with an iterator that shows itself."""

    @wraps(call)
    def made(*args: _P.args, **options: _P.kwargs) -> Iterator[_T]:
        return Listing(partial(call, *args, **options), call.__name__)

    return made


class Dot(NamedTuple):
    """A commit of a graph; its names, its text and its note are written beside it."""

    id: str
    parents: Sequence[str]
    text: str
    names: Sequence[str] = ()
    note: str = ""
    title: str = ""
    stopped: bool = False
    href: str = ""


class Graph(str):
    """An SVG picture of commits, which a notebook shows."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<graph of {self.count('<circle')} commits>"

    def _repr_svg_(self) -> str:
        return str(self)


def graph(dots: Sequence[Dot], *, trunk: str = "") -> Graph:
    """Return a picture of commits, children above their parents, with lines between them.

    Args:
        trunk: Id of the commit whose line of first parents is the first column.
    """
    columns: list[tuple[str, list[_Place]]] = [(trunk, [])]
    places, lines = [], []
    for row, dot in enumerate(dots):
        mine = [at for at, (awaited, _) in enumerate(columns) if awaited == dot.id]
        column = mine[0] if mine else _column_of("", columns)
        places.append((column, row))
        for at in mine:
            lines += [(start, at, (column, row)) for start in columns[at][1]]
            columns[at] = "", []
        for number, parent in enumerate(dot.parents):
            at = column if number == 0 else _column_of(parent, columns)
            columns[at] = parent, [*columns[at][1], (column, row)]
    for at, (_, starts) in enumerate(columns):
        lines += [(start, at, (at, len(dots))) for start in starts]
    return _svg(dots, places, lines, len(columns))


def _column_of(awaited: str, columns: list[tuple[str, list[_Place]]]) -> int:
    """Return the column that leads to a commit, else a free one."""
    names = [name for name, _ in columns]
    for name in (awaited, ""):
        if name in names:
            return names.index(name)
    columns.append(("", []))
    return len(names)


def _svg(
    dots: Sequence[Dot],
    places: Sequence[_Place],
    lines: Iterable[tuple[_Place, int, _Place]],
    columns: int,
) -> Graph:
    def point(column: int, row: float) -> str:
        return f"{_MARGIN + column * _STEP} {_MARGIN + row * _TALL:g}"

    parts = []
    for (first, top), along, (last, bottom) in lines:
        bends = [(along, top + 0.5)] if along != first else []
        bends += [(along, bottom - 0.5)] if along != last else []
        path = "L".join(point(*place) for place in ((first, top), *bends, (last, bottom)))
        tone = _tone("stroke", "main" if first == along == last == 0 else "side")
        parts.append(f'<path d="M{path}" fill="none" {tone} stroke-width="2"/>')
    start, longest = _MARGIN + columns * _STEP, 0
    for dot, place in zip(dots, places, strict=True):
        x, y = point(*place).split()
        tone = _tone("fill", "stopped" if dot.stopped else "side" if place[0] else "main")
        texts = ["  ".join(dot.names), dot.text, dot.note]
        names, text, note = (_escaped(_cut(each, _LONGEST_LABEL)) for each in texts)
        longest = max(longest, len(names + text + note) + 4)
        shown = (
            f'<title>{_escaped(dot.title)}</title><circle cx="{x}" cy="{y}" r="5" {tone}/>'
            f'<text x="{start}" y="{int(y) + 4}"><tspan {tone} font-weight="bold">{names} </tspan>'
            f"{text} <tspan {_tone('fill', 'side')}>{note}</tspan></text>"
        )
        ends = (f'<a href="{_escaped(dot.href)}">', "</a>") if dot.href else ("<g>", "</g>")
        parts.append(shown.join(ends))
    width, height = start + 7 * longest, _MARGIN + len(dots) * _TALL
    return Graph(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12" fill="#18212d">'
        '<rect class="ground" width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>"
    )


def _tone(attribute: str, tone: str) -> str:
    """Return a colour, and the class by which a style sheet replaces it."""
    return f'{attribute}="{_TONES[tone]}" class="{tone}"'


def line_of(item: Any) -> str:
    """Return what an object shows in a list, as one line of text."""
    if hasattr(item, "refuses"):
        at = f" ({item.facts['at']})" if item.facts.get("at") else ""
        return f"{' '.join(_verdict(item).text.splitlines())}{at}"
    texts = {name: ", ".join(cell.text for cell in cells) for name, cells in row_of(item).items()}
    first, *rest = [f"{name} {text}" for name, text in texts.items() if text]
    return f"{first}: {', '.join(rest)}"


def refusal(error: Exception, what: str, reasons: Iterable[Any], hint: str = "") -> list[str]:
    """Return an error as at most ten lines: what was refused, the reasons, and the way out."""
    lines = [_plain(line_of(reason)).text for reason in reasons]
    if len(lines) > _REASONS:
        lines[_REASONS - 1 :] = [f"… and {len(lines) - _REASONS + 1} more"]
    ended = [f"{type(error).__name__}: {what}", *(f"  {line}" for line in lines), hint]
    return [printable(line) for line in ended if line]
