"""The jobs of a check by tasks, run in this process; the order of tasks must not matter."""

import pyarrow as pa

from graveler.repository.imports.tasks import batch_of
from graveler.spark.tasks.checks import FOUND, OBJECT_FIELDS, Outcome
from graveler.values import encode_range_info

_FINDING = ("number", "place", "kind", "id", "message", "paths")


def jobs(ranges, objects, infos, staged):
    """Run the tasks in reverse order, each on a few rows."""
    found = _rows([batch_of(staged, FOUND)] if staged else [])
    for number, info in reversed(infos):
        row = {"part": 0, "number": number, "key": info.max_key, "value": encode_range_info(info)}
        found += _rows(ranges(iter([pa.RecordBatch.from_pylist([row])])))
    findings = [tuple(row[name] for name in _FINDING) for row in found if row["kind"]]
    if objects is None:
        return Outcome(0, 0, findings, ())
    held = [row for row in found if row["mark"] is not None]
    once = {row["mark"]: {name: row[name] for name in OBJECT_FIELDS} for row in held}
    batches = [pa.RecordBatch.from_pylist([row]) for row in once.values()]
    looked = {row["mark"]: row for row in _rows(objects(iter(batches)))}
    faults = [
        (row["number"], row["place"], row["address"], looked[row["mark"]]["fault"], row["paths"])
        for row in held
        if looked[row["mark"]]["fault"]
    ]
    return Outcome(len(once), sum(row["read"] for row in looked.values()), findings, faults)


def _rows(batches):
    return [row for batch in batches for row in batch.to_pylist()]
