"""Merges of lines of an Iceberg table, one by one and in random histories of two branches.

``python -m tests.harness.iceberg_merges 2000`` compares so many histories with the plain model.
"""

import sys
from collections import Counter
from contextlib import contextmanager
from functools import cache
from tempfile import mkdtemp

import pyiceberg.manifest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from graveler.iceberg.merging.tables import MergedTable, TableSide, merge_table
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.iceberg_lines import BY_PART, Line, new_line, three_way

IDS = SequenceIds()


@contextmanager
def no_cache():
    """Read every manifest list as it is: the lines of a test are branches of one process."""
    kept = pyiceberg.manifest._manifest_cache._cache
    pyiceberg.manifest._manifest_cache._cache = None
    yield
    pyiceberg.manifest._manifest_cache._cache = kept


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
OF_FORMAT_2 = {"delete", "equal"}
_NEW_DATA = {"append", "overwrite", "rewrite"}
_QUIET = {"append", "compact", "merge"}


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
        st.sampled_from(
            ["append", "append", "overwrite", "rewrite", "drop_part", "delete", "delete_equal", "compact", "merge"]
        ),
        st.sampled_from("ab"),
    ),
    min_size=2,
    max_size=9,
)


def check_history(version, partitioned, steps, seen):
    """Play a history of two branches, and compare every merge with the plain model.

    Args:
        seen: Counts what became of the merges.
    """
    base = started(version, partitioned)
    lines = [base.fork(), base.fork()]
    done: list[set[tuple[str, str]]] = [set(), set()]
    for at, what, part in [*steps, (0, "merge", "a")]:
        line = lines[at]
        if what != "merge":
            if version == 2 or what not in ("delete", "delete_equal"):
                getattr(line, what)(part)
                done[at].add((what, part))
            continue
        merged = merge(base, line, lines[1 - at])
        if isinstance(merged, Line):
            assert merged.read() == sorted(merged.rows)
            lines[1 - at], base, done = merged, line.fork(), [set(), set()]
        else:
            theirs = {where for _, where in done[1 - at]}
            meets = {where for what, where in done[at] if what not in _QUIET} & theirs
            equal = any(what == "delete_equal" for what, _ in done[at])
            assert meets or equal or not partitioned, "a conflict without a reason"
            assert {what for what, _ in done[at]} - _QUIET, "appends and compactions never conflict"
        seen[type(merged).__name__] += 1


def check_histories(count):
    """Compare random histories with the plain model; return what became of the merges."""
    seen: Counter[str] = Counter()

    @settings(max_examples=count, deadline=None, suppress_health_check=[*HealthCheck], database=None)
    @given(st.sampled_from([1, 2, 2, 2]), st.booleans(), STEPS)
    def check(version, partitioned, steps):
        with no_cache():
            check_history(version, partitioned, steps, seen)

    check()
    return seen


if __name__ == "__main__":
    print(dict(check_histories(int(sys.argv[1]))))
