"""The table of merge cases: what the source did, against what the destination did, in rows of a model."""

from functools import cache

import pytest

from tests.harness.iceberg_lines import Line
from tests.harness.iceberg_merges import OPERATIONS, merge, started

ALL = [*OPERATIONS]
#  the destination:    append, other, overwrite, rewrite, drop, delete, equal, compact, and of metadata
BY_PARTITION = {
    "append": "............",
    "other": "............",
    "overwrite": "x.xx....x.x.",
    "rewrite": "x.xxxxx.x.x.",
    "drop": "x.xx....x.x.",
    "delete": "x.xx....x.x.",
    "equal": "xxxx....x.x.",
    "compact": "............",
    "column": "............",
    "rename": "............",
    "evolve": "............",
    "property": "............",
}
FEW = ["append", "other", "overwrite", "rewrite", "drop", "delete", "equal", "compact"]
AS_A_WHOLE = {
    "other": "........",
    "overwrite": "xxxx....",
    "rewrite": "xxxxxxx.",
    "delete": "xxxx....",
    "compact": "........",
}
OLD = ["append", "other", "overwrite", "rewrite", "drop", "compact", "column", "rename", "evolve"]
FORMAT_1 = {
    "append": ".........",
    "overwrite": "x.xx..x.x",
    "rewrite": "x.xxx.x.x",
    "drop": "x.xx..x.x",
    "compact": ".........",
    "evolve": ".........",
}


@cache
def side(name, what, version, partitioned):
    line = started(version, partitioned).fork()
    OPERATIONS[what](line)
    assert line.read() == sorted(line.rows), (name, what)
    return line


CASES = [
    *((2, True, ALL, here, row) for here, row in BY_PARTITION.items()),
    *((2, False, FEW, here, row) for here, row in AS_A_WHOLE.items()),
    *((1, True, OLD, here, row) for here, row in FORMAT_1.items()),
]


@pytest.mark.parametrize(("version", "partitioned", "others", "here", "row"), CASES)
def test_a_case_merges_to_the_rows_of_the_model(version, partitioned, others, here, row):
    shape = version, partitioned
    outcomes = ""
    for there in others:
        merged = merge(started(*shape), side("source", here, *shape), side("dest", there, *shape))
        outcomes += "." if isinstance(merged, Line) else "x"
        if isinstance(merged, Line):
            assert merged.read() == sorted(merged.rows), there
        else:
            assert (merged.table, merged.source, merged.dest) == ("db.t", "run-1", "main")
            assert merged.partitions == (("part=a",) if partitioned else ()), there
    assert outcomes == row
