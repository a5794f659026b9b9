"""What objects show of themselves is well formed, whatever text they have."""

import re
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.display import (
    SHOWN,
    Cell,
    Dot,
    Rows,
    card,
    graph,
    line_of,
    listed,
    listing,
    printable,
    table,
)
from graveler.errors import GateFailedError, MergeConflictError
from graveler.gates import Verdict
from graveler.model import Change, ChangedBy, ChangeKind, Conflict, Entry

_NAMES = st.text(min_size=1, max_size=8)
_TEXTS = st.text(max_size=80)
_CELLS = st.builds(Cell, st.text(), st.text(), color=st.just("red"))
_ROWS = st.lists(st.dictionaries(_NAMES, st.lists(_CELLS, max_size=3), max_size=3), max_size=3)
_SVG = "{http://www.w3.org/2000/svg}"


def entry(path: str, size: int) -> Entry:
    return Entry(path=path, address="data/1", size=size)


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 - text of this process


def texts(html: str) -> str:
    return "".join(parsed(f"<p>{html}</p>").itertext())


@given(_ROWS)
def test_tables_show_all_text_as_text(rows):
    html = table(rows)
    assert html.count("<tr>") == (len(rows) + 1 if rows else 0)
    for cell in (cell for row in rows for cells in row.values() for cell in cells):
        for line in cell.text.split("\n"):
            assert printable(line) in texts(html)


@given(st.dictionaries(_NAMES, _CELLS))
def test_cards_show_what_has_a_value(cells):
    filled = [name for name, cell in cells.items() if cell.text]
    html = card({name: [cell] for name, cell in cells.items()})
    assert html.count("<tr>") == len(filled)
    assert all(printable(name) in texts(html) for name in filled)


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        (entry("a<b>/\x1b[31m\u202e.csv", 2048), ["a&lt;b&gt;/\\x1b[31m\\u202e.csv", "2.0 KiB"]),
        (Change("a", ChangeKind.REMOVED, entry("a", 3), None), ["removed", "3 B"]),
        (Verdict("full", False, "error", "a < b\nc"), ["✕ full: a &lt; b<br/>c"]),
        (Verdict("full", False, "warn", "late"), ["! full: late"]),
        (Verdict("full", True, "error", facts={"rows": 7}), ["✓ full", "rows=7"]),
        (datetime(2013, 1, 1, 5, tzinfo=UTC), ["2013-01-01 05:00:00"]),
        ("f" * 64, [">ffffffffffff<"]),
        ("long " * 100, ["long…"]),
    ],
)
def test_lists_show_their_items(item, shown):
    html = listed([item])
    assert [text for text in shown if text not in html] == []


def test_a_conflict_is_one_line():
    conflict = Conflict(
        "a", entry("a", 1), None, entry("a", 2), source_change=ChangedBy("f" * 64, "hour 5")
    )
    assert line_of(conflict) == "path a: base 1 B, dest 2 B, source_change ffffffffffff hour 5"


@pytest.mark.parametrize(("length", "more"), [(SHOWN, False), (SHOWN + 1, True), (None, True)])
def test_a_list_shows_its_first_items_and_stays_unread(length, more):
    @listing
    def numbers(start):
        yield from count(start) if length is None else range(start, start + length)

    made: Any = numbers(5)
    assert repr(made) == "<numbers(): loops, next() and list() read it>"
    assert next(made) == 5
    html = made._repr_html_()
    assert html.count("<td") == SHOWN
    assert ">5</td>" in html
    assert html.endswith("<p>… and more</p>") is more
    assert next(made) == 6
    assert next(iter(made)) == 7


def test_an_empty_list_says_so():
    assert Rows()._repr_html_() == "<p>none</p>"


@st.composite
def histories(draw):
    """Draw commits, children before parents, some of whose parents are not drawn."""
    size = draw(st.integers(0, 12))
    parents = [
        draw(st.lists(st.integers(at + 1, size + 1), max_size=3, unique=True)) for at in range(size)
    ]
    return [
        Dot(str(at), [str(parent) for parent in some], draw(_TEXTS), names=[draw(st.text())])
        for at, some in enumerate(parents)
    ]


@given(histories())
def test_lines_of_a_graph_cross_no_commit(dots):
    drawn = graph(dots, trunk="0")
    root = parsed(drawn)
    places = [
        (int(dot.get("cx", "")), int(dot.get("cy", ""))) for dot in root.iter(f"{_SVG}circle")
    ]
    assert len(places) == len(dots)
    assert [y for _, y in places] == sorted({y for _, y in places})
    texts = ["".join(text.itertext()) for text in root.iter(f"{_SVG}text")]
    assert all(printable(dot.text) in text for dot, text in zip(dots, texts, strict=True))
    lines = [
        [tuple(map(int, point.split())) for point in re.split("[ML]", path.get("d", ""))[1:]]
        for path in root.iter(f"{_SVG}path")
    ]
    below = max((y for _, y in places), default=0)
    ends = sorted((line[0], line[-1]) for line in lines)
    wanted = [
        (places[int(dot.id)], places[int(parent)])
        for dot in dots
        for parent in dot.parents
        if int(parent) < len(dots)
    ]
    assert [pair for pair in ends if pair[1][1] <= below] == sorted(wanted)
    assert len(ends) == sum(len(dot.parents) for dot in dots)
    for line in lines:
        for (x, top), (end, bottom) in pairwise(line):
            assert not any(x == end == across and top < y < bottom for across, y in places)


def test_a_graph_is_as_narrow_as_a_page():
    dot = Dot(
        "a", [], "message " * 1000, names=["branch"] * 1000, note="by " * 1000, title="a " * 99
    )
    (width,) = re.findall(r'width="(\d+)"', graph([dot]))[:1]
    assert int(width) < 2000


def test_first_parents_are_one_straight_column():
    dots = [
        Dot("run", ["b"], "a parked run"),
        Dot("c", ["b", "step"], "merge"),
        Dot("step", ["a"], "a step"),
        Dot("b", ["a"], "commit"),
        Dot("a", [], "root"),
    ]
    drawn = parsed(graph(dots, trunk="c"))
    columns = [int(dot.get("cx", "")) for dot in drawn.iter(f"{_SVG}circle")]
    left = min(columns)
    assert [at == left for at in columns] == [False, True, False, True, True]


@pytest.mark.parametrize("refusing", [0, 1, 8, 9, 40])
def test_a_refusal_has_at_most_ten_lines(refusing):
    verdicts = (
        Verdict("passes", True, "error"),
        *(
            Verdict(f"gate {at}", False, "error", "bad\x1b\nrows", facts={"at": "gates.py:7"})
            for at in range(refusing)
        ),
    )
    error = GateFailedError("run 'a' was refused: gate 0: bad", verdicts, "main")
    first, *middle, last = error._render_traceback_()
    assert first == "GateFailedError: run 'a' was refused"
    assert last == "'main' did not move. Correct what the gates name, and try again."
    assert len(middle) == min(refusing, 8)
    if refusing:
        assert middle[0] == "  ✕ gate 0: bad\\x1b rows (gates.py:7)"
    if refusing > 8:
        assert middle[-1] == f"  … and {refusing - 7} more"


def test_conflicts_are_at_most_ten_lines():
    conflicts = tuple(Conflict(f"{at:02}", None, entry("", 1), None) for at in range(20))
    lines = MergeConflictError("merge: 20 paths", conflicts)._render_traceback_()
    assert lines[:2] == ["MergeConflictError: merge: 20 paths", "  path 00: source 1 B"]
    assert lines[-1] == "  … and 13 more"
    assert len(lines) == 9
