"""The table of merge cases: what the source did, against what the destination did.

In a row, ``x`` stands for a conflict with the operation in this place.
"""

from functools import cache

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

CASES = [
    *((2, True, ALL, here, row) for here, row in BY_PARTITION.items()),
    *((2, False, FEW, here, row) for here, row in AS_A_WHOLE.items()),
    *((1, True, OLD, here, row) for here, row in FORMAT_1.items()),
]
"""Version of the format, whether the table is partitioned, the destination's operations, the source's, the results."""


@cache
def side(name, what, version, partitioned):
    line = started(version, partitioned).fork()
    OPERATIONS[what](line)
    assert line.read() == sorted(line.rows), (name, what)
    return line


def merged_cases(version, partitioned, others, here):
    """Yield the operation of the destination and the merged line, or the conflict, of one row."""
    shape = version, partitioned
    for there in others:
        sides = side("source", here, *shape), side("dest", there, *shape)
        yield there, merge(started(*shape), *sides)
