"""Steps of two runs write one Delta table with delta-rs, on a local copy of its log."""

import json
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import graveler
from graveler.errors import MergeConflictError


def load(repo: graveler.Repository, hour: str, ids: list[int], tables: str = "replace") -> None:
    """Run the step of an hour, and publish it."""
    rows = pa.table({"hour": [hour] * len(ids), "id": ids})
    run = repo.runs.open(f"load {hour}")
    with run.step("load", tables=tables) as step, tempfile.TemporaryDirectory() as folder:
        if step.has_below("orders/_delta_log/"):
            step.download("orders/_delta_log/", f"{folder}/_delta_log")
        known = set(Path(folder).rglob("*"))
        write_deltalake(
            folder, rows, mode="overwrite", predicate=f"hour = '{hour}'", partition_by=["hour"]
        )
        for file in set(Path(folder).rglob("*")) - known:
            if file.is_file():
                step.put(f"orders/{file.relative_to(folder)}", file.read_bytes())
    run.publish()


def rows_of(repo: graveler.Repository) -> list[list[object]]:
    """Return the rows of the table on main."""
    with tempfile.TemporaryDirectory() as folder:
        repo.ref("main").download("orders/", folder)
        rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return sorted([row["hour"], row["id"]] for row in rows)


def main(folder: str) -> dict[str, object]:
    """Return what is seen in a new lake in a folder."""
    seen: dict[str, object] = {}
    with graveler.init(folder) as lake:
        repo = lake.create_repository("hours")
        load(repo, "05", [1, 2])
        load(repo, "06", [3])
        seen["two hours"] = rows_of(repo)
        try:
            load(repo, "05", [1, 4])
        except MergeConflictError as error:
            seen["refused"] = str(error)
        load(repo, "05", [1, 4], tables="keep")
        seen["05 again"] = rows_of(repo)
        try:
            repo.runs.rollback("load 06")
        except MergeConflictError as error:
            seen["rollback refused"] = str(error)
        repo.runs.rollback("load 05")
        repo.runs.rollback("load 06")
        seen["rolled back"] = rows_of(repo)
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1])))
