"""The graph of the log: its lines lead from each commit to its parents, and to nothing else."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.cli.verbs.looking.log import Graph
from graveler.errors import ErrorCode


@st.composite
def histories(draw):
    """The parents of each commit, which is numbered; the last one reaches all."""
    parents: list[tuple[int, ...]] = [()]
    for number in range(1, draw(st.integers(1, 12))):
        some = st.lists(st.integers(max(0, number - 5), number - 1), min_size=1, max_size=3)
        parents.append(tuple(draw(some.map(dict.fromkeys).map(tuple))))
    unreached = set(range(len(parents) - 1)) - {each for some in parents for each in some}
    return [*parents, (len(parents) - 1, *sorted(unreached))] if unreached else parents


def drawn(parents):
    """Return the rows of the graph, and the row of each commit."""
    graph = Graph()
    rows: list[str] = []
    at: dict[int, int] = {}
    for number in reversed(range(len(parents))):
        commit: Any = SimpleNamespace(id=str(number), parents=tuple(map(str, parents[number])))
        stem, edges = graph.add(commit)
        at[len(rows)] = number
        rows += [stem, *edges]
    return rows, at


def steps(row, place):
    """Return the places to which a line at a place of the row above goes on this row."""
    row = row.ljust(place + 2)
    if "_" in row and row[place - 1 : place] == "/" and row.index("/") == place - 1:
        return [("joins", row.index("_") - 1)]
    straight = [("", place)] if row[place] in "|*" else []
    right = [("", place + 2)] if row[place + 1] == "\\" else []
    left = [("", place - 2)] if place and row[place - 1] == "/" else []
    return straight + right + left


def reached(rows, at, start):
    """Return the commits to which the lines from a row's star lead."""
    found, todo = set(), [("", start, rows[start].index("*"))]
    while todo:
        way, row, place = todo.pop()
        if row + 1 == len(rows):
            continue
        below, joined = rows[row + 1], "_" in rows[row]
        if way == "joins":  # the next row has the rest of the line, which ends beside a column
            assert below[place + 1] == "/"
            goes = [("", place)]
        elif joined:  # only the joining line bends here
            goes = [("", place)]
        else:
            goes = steps(below, place)
        for way_on, place_on in goes:
            if below[place_on : place_on + 1] == "*" and row + 1 in at:
                found.add(at[row + 1])
            else:
                todo.append((way_on, row + 1, place_on))
    return found


@given(histories())
def test_the_lines_lead_from_each_commit_to_its_parents(parents):
    rows, at = drawn(parents)
    for row, number in at.items():
        assert reached(rows, at, row) == set(parents[number]), "\n".join(rows)


def test_a_merge_is_drawn_with_author_and_time(cli, history):
    history.merge("dev", into="main")
    heads = [history.commit(ref).id[:12] for ref in ("main", "dev", "v1", "v1~1")]
    lines = cli("log", "--graph", "--oneline").out.splitlines()
    starts = [f"* {heads[0]}", "|\\", f"| * {heads[1]}", "|/", f"* {heads[2]}", f"* {heads[3]}"]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert lines[4].startswith(f"* {heads[2]}  first  (tag v1)  ann, 2")
    by_first = cli("log", "--graph", "--first-parent").out.splitlines()
    assert [line[:14] for line in by_first] == [f"* {heads[at]}" for at in (0, 2, 3)]
    assert cli("log", "--graph", "--json").out == cli("log", "--json").out


@pytest.mark.parametrize("more", [["--author", "ann"], ["main", "readme.txt"], ["--meta", "a=b"]])
def test_a_graph_has_all_commits(cli, history, more):
    said = cli("log", "--graph", *more, "--json")
    assert (said.code, said.error["code"]) == (2, ErrorCode.INVALID_INPUT)
