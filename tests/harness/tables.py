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


def random_frame(chance, spark, kinds, day, number):
    """Return a frame with the rows of the write of a number, whose columns have one of their types."""
    columns = {"id": "int", "day": day}
    columns |= {name: chance.choice(some) for name, some in kinds.items() if chance.random() < 0.7}
    values = [
        {name: random_value(chance, kind) for name, kind in columns.items()} | {"id": row}
        for row in range(number * 10, number * 10 + chance.randrange(1, 4))
    ]
    if day == "string":  # Spark writes empty text in the name of a folder as null
        values = [row | {"day": row["day"] or None} for row in values]
    schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return spark.createDataFrame([tuple(row.values()) for row in values], schema).coalesce(1)


def _by_branch(repo, frame, **given):
    main = repo.branch("main")
    gs.write(main, frame, "t/", **given)
    main.commit("rows")


def _by_transaction(repo, frame, **given):
    with gs.Tables(repo, frame.sparkSession).transaction("main", message="rows") as tx:
        tx.write(frame, "t/", **given)


def _by_step(repo, frame, **given):
    key = f"run {sum(1 for _ in repo.log('main'))}"
    with repo.run(key, into="main") as run, run.step("load") as step:
        step.write(frame, "t/", **given)


_WRITERS = (_by_branch, _by_transaction, _by_step)


def check_random_table(seed, repo, spark):
    """Compare a table of random writes with Spark's own union of the same frames."""
    chance = random.Random(seed)
    kinds = {name: random_kinds(chance) for name in "abcde"}
    day = chance.choice(("string", "date", "int", "timestamp"))
    by, form = chance.choice(([], ["day"])), chance.choice(("parquet", "parquet", "orc"))
    frames = []
    for number in range(chance.randrange(2, 5)):
        frame = random_frame(chance, spark, kinds, day, number)
        chance.choice(_WRITERS)(repo, frame, format=form, partition_by=by)
        frames.append(frame)
    found = gs.read(repo.ref("main"), "t/", format=form, spark=spark)
    wanted = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    assert {*found.columns} == {*wanted.columns}
    assert _rows(found) == _rows(wanted.select(*found.columns))


def check_random_folder(seed, repo, spark, folder):
    """Compare a table of random appends and overwrites with a folder that plain Spark wrote and reads.

    Plain Spark reads no column of two types, so that each column has one.
    """
    chance = random.Random(seed)
    kinds = {name: (chance.choice(random_kinds(chance)),) for name in "abcde"}
    day = chance.choice(("date", "int"))  # plain Spark guesses other types of partitions
    by, form = chance.choice(([], ["day"])), chance.choice(("parquet", "orc", "json"))
    for number in range(chance.randrange(2, 6)):
        frame = random_frame(chance, spark, kinds, day, number)
        mode, replaced = (
            chance.choice(("append", "overwrite")),
            chance.choice(("dynamic", "static")),
        )
        given = {"format": form, "mode": mode, "partition_by": by}
        chance.choice(_WRITERS)(repo, frame, **given, partition_overwrite=replaced)
        plain = frame.write.format(form).mode(mode).partitionBy(*by)
        plain.option("partitionOverwriteMode", replaced).save(str(folder))
    found = gs.read(repo.ref("main"), "t/", format=form, spark=spark)
    wanted = spark.read.format(form).option("mergeSchema", True).load(str(folder))
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
