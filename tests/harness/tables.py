"""Tables of random schemas and values by random writers, compared with what Spark makes of the same rows."""

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce

import graveler.spark as gs

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal(5,2)", "decimal(18,4)")
_FRACTIONS = ("tinyint", "int", "float", "double")
_OTHERS = ("string", "boolean", "date", "timestamp", "binary")


def random_kinds(chance):
    """Return the types that a column has in the writes of a table."""
    shape = chance.randrange(6)
    if shape == 0:
        return _NUMBERS
    if shape == 1:
        return _FRACTIONS
    if shape == 2:
        return tuple(f"array<{kind}>" for kind in chance.choice((("int",), ("string",))))
    if shape == 3:
        return ("struct<x:int>", "struct<x:int,y:string>", "struct<y:string,z:array<int>>")
    return (chance.choice(_OTHERS),)


def random_value(chance, kind):
    """Return a value of a type, or None."""
    if chance.random() < 0.2:
        return None
    if kind.startswith("array<"):
        return [random_value(chance, kind[6:-1]) for _ in range(chance.randrange(3))]
    if kind.startswith("struct<"):
        fields = [field.split(":") for field in kind[7:-1].split(",")]
        return {name: random_value(chance, inside) for name, inside in fields}
    number = chance.randrange(-100, 100)
    if kind.startswith("decimal"):
        return Decimal(number) / 4
    return {
        "string": chance.choice(("", "ü", "01", "x y")),
        "boolean": number > 0,
        "date": date(2026, 1, 1 + abs(number) % 28),
        "timestamp": datetime(2026, 11, 1, abs(number) % 24, tzinfo=UTC),
        "binary": bytes([abs(number)]),
        "float": number / 4,
        "double": number / 8,
    }.get(kind, number)


def write_both(chance, repo, spark):
    """Write a random table by random writers, and return its format and the written frames."""
    kinds = {name: random_kinds(chance) for name in "abcde"}
    day = chance.choice(("string", "date", "int", "timestamp"))
    by = chance.choice(([], ["day"]))
    form = chance.choice(("parquet", "parquet", "orc"))
    frames = []
    for number in range(chance.randrange(2, 5)):
        columns = {"id": "int", "day": day}
        columns |= {
            name: chance.choice(some) for name, some in kinds.items() if chance.random() < 0.7
        }
        values = [
            {name: random_value(chance, kind) for name, kind in columns.items()} | {"id": row}
            for row in range(number * 10, number * 10 + chance.randrange(1, 4))
        ]
        if by and day == "string":  # Spark writes empty text as null
            values = [row | {"day": row["day"] or None} for row in values]
        schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        frame = spark.createDataFrame([tuple(row.values()) for row in values], schema).coalesce(1)
        chance.choice((_by_branch, _by_transaction, _by_step))(repo, frame, form, by)
        frames.append(frame)
    return form, frames


def _by_branch(repo, frame, form, by):
    main = repo.branch("main")
    gs.write(main, frame, "t/", format=form, partition_by=by)
    main.commit("rows")


def _by_transaction(repo, frame, form, by):
    with gs.attach(repo, frame.sparkSession).transaction("main", message="rows") as tx:
        tx.write(frame, "t/", format=form, partition_by=by)


def _by_step(repo, frame, form, by):
    key = f"run {sum(1 for _ in repo.log('main'))}"
    with repo.run(key, into="main") as run, run.step("load") as step:
        step.write(frame, "t/", format=form, partition_by=by)


def check_random_table(seed, repo, spark):
    """Compare a table of random writes with Spark's own union of the same frames."""
    form, frames = write_both(random.Random(seed), repo, spark)
    found = gs.read(repo.ref("main"), "t/", format=form, spark=spark)
    wanted = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    assert {*found.columns} == {*wanted.columns}
    assert _rows(found) == _rows(wanted.select(*found.columns))


def _rows(frame):
    rows = (row.asDict(recursive=True) for row in frame.collect())
    return sorted(json.dumps(_plain(row), sort_keys=True) for row in rows)


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return [_plain(inside) for inside in value]
    return str(value.normalize() + 0) if isinstance(value, Decimal) else str(value)
