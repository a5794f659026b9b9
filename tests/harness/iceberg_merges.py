"""Merges of lines of an Iceberg table, one by one and in random histories of two branches.

``python -m tests.harness.iceberg_merges 2000`` compares so many histories with the plain model.
"""

import sys
from collections import Counter
from functools import cache
from tempfile import mkdtemp
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from graveler.tables.merging.conflicts import MergedTable
from graveler.tables.merging.tables import TableSide, merge_table
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.iceberg_lines import BY_PART, Line, new_line, three_way

IDS = SequenceIds()


def merge(base, source, dest, **more):
    """Merge two lines into a new one at the destination's place, or return the conflict."""
    result = merge_table(
        "db.t",
        base and base.metadata,
        TableSide(source and source.metadata, "source.json", "run-1"),
        TableSide(dest and dest.metadata, "dest.json", "main"),
        more.get("io") or (dest or source).io,
        clock=FakeClock(),
        ids=IDS,
        folder=more.get("folder"),
    )
    if isinstance(result, MergedTable):
        return Line(result.metadata, three_way(base.rows, source.rows, dest.rows), dest.io)
    return result


def add_column(line):
    """Add a column, and rows that have it."""

    def work(transaction):
        with transaction.update_schema() as update:
            update.add_column("extra", LongType())

    line.change(work)
    line.append("a", extra=7)


def rename(line):
    """Rename a column."""

    def work(transaction):
        with transaction.update_schema() as update:
            update.rename_column("value", "amount")

    line.change(work)


def evolve(line):
    """Partition by another column, too, and append."""

    def work(transaction):
        with transaction.update_spec() as update:
            update.add_field(line.name(3), IdentityTransform(), "by_value")

    line.change(work)
    line.append("a")


OPERATIONS = {
    "append": lambda line: line.append("a"),
    "other": lambda line: line.append("b"),
    "overwrite": lambda line: line.overwrite("a"),
    "rewrite": lambda line: line.rewrite("a"),
    "drop": lambda line: line.drop_part("a"),
    "delete": lambda line: line.delete("a"),
    "equal": lambda line: line.delete_equal("a"),
    "compact": lambda line: line.compact("a"),
    "column": add_column,
    "rename": rename,
    "evolve": evolve,
    "property": lambda line: line.set(owner="x"),
}
_QUIET = {"append", "compact"}
_STEPS = ["append", "append", "overwrite", "rewrite", "drop_part", "delete", "delete_equal"]
_STEPS += ["compact", "merge", "revert"]


@cache
def started(version=2, partitioned=True):
    """Return a table of three files, with a deleted row in format 2."""
    line = new_line(mkdtemp(), spec=BY_PART if partitioned else None, version=version)
    for part in "aab":
        line.append(part)
    if version == 2:
        line.delete("a")
    return line


STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(_STEPS),
        st.sampled_from("ab"),
    ),
    min_size=2,
    max_size=9,
)


class Histories:
    """Two branches of a table, their base, and what each did since."""

    def __init__(self, version, partitioned, seen):
        self.version, self.partitioned, self.seen = version, partitioned, seen
        self.base = started(version, partitioned)
        self.lines = [self.base.fork(), self.base.fork()]
        self.done: list[set[tuple[str, str]]] = [set(), set()]
        self.last: list[Any] = [None, None]

    def step(self, at, what, part):
        """Do one thing on one branch."""
        if what == "merge":
            self.merge(at)
        elif what == "revert":
            self.revert(at)
        elif self.version == 2 or what not in ("delete", "delete_equal"):
            before = self.lines[at].fork()
            # a row that both branches delete stays deleted if one of them reverts; the model has it again
            more = {"odd": at == 1} if what in {"delete", "delete_equal"} else {}
            getattr(self.lines[at], what)(part, **more)
            self.last[at] = before, self.lines[at].fork(), part
            self.done[at].add((what, part))

    def merge(self, at):
        """Merge a branch into the other one."""
        merged = merge(self.base, self.lines[at], self.lines[1 - at])
        if self.good("merge", merged):
            self.lines[1 - at], self.base, self.done[at] = merged, self.lines[at].fork(), set()
            return
        here, there = self.done[at], {where for _, where in self.done[1 - at]}
        meet = {where for what, where in here if what not in _QUIET} & there
        equal = any(what == "delete_equal" for what, _ in here)
        back = any(what == "revert" for what, _ in self.done[1 - at])
        assert meet or equal or back or not self.partitioned, "a conflict without a reason"
        assert {what for what, _ in here} - _QUIET, "appends and compactions never conflict"

    def revert(self, at):
        """Revert what a branch did last."""
        if self.last[at]:
            before, after, part = self.last[at]
            merged = merge(after, before, self.lines[at])
            if self.good("revert", merged):
                self.lines[at], self.last[at] = merged, None
                self.done[at].add(("revert", part))

    def good(self, what, merged):
        """Compare a merge with the model; return whether there was no conflict."""
        self.seen[what, type(merged).__name__] += 1
        if not isinstance(merged, Line):
            return False
        assert merged.read() == sorted(merged.rows)
        return True


def check_histories(count):
    """Compare random histories with the plain model; return what became of the merges."""
    seen: Counter[tuple[str, str]] = Counter()

    @settings(
        max_examples=count, deadline=None, suppress_health_check=[*HealthCheck], database=None
    )
    @given(st.sampled_from([1, 2, 2, 2]), st.booleans(), STEPS)
    def check(version, partitioned, steps):
        histories = Histories(version, partitioned, seen)
        for step in [*steps, (0, "merge", "a")]:
            histories.step(*step)

    check()
    return seen


if __name__ == "__main__":
    sys.stdout.write(f"{dict(check_histories(int(sys.argv[1])))}\n")
