"""Tables, transactions, metadata and bulk imports on the Spark version of this environment."""

import json
import sys
from pathlib import Path

import pyspark

import graveler
from graveler import spark as gs
from graveler.errors import InvalidInputError


def main(folder: str) -> dict[str, object]:
    """Return what is read from a new lake in a folder."""
    seen: dict[str, object] = {"pyspark": pyspark.__version__}
    with graveler.init(folder) as lake, gs.session(master="local[2]") as spark:
        repo = lake.create_repository("tables")
        tables = gs.Tables(repo, spark)
        frame = spark.range(10).selectExpr("id", "id % 2 as k")
        with tables.transaction("main", message="one") as tx:
            tx.write(frame, "orders/", partition_by=["k"])
        with tables.transaction("main", message="two") as tx:
            tx.write(frame.where("k = 1"), "orders/", mode="overwrite", partition_by=["k"])
            tx.write(frame, "copy/")
        seen["rows"] = [tables.read(ref, "orders/").count() for ref in ("main~1", "main")]
        seen["odd"] = tables.read("main", "orders/", where={"k": 1}, columns=["id"]).count()
        seen["entries"] = tables.entries("main", "copy/").count() > 0
        landing = f"{folder}.landing"
        frame.write.parquet(landing)
        repo.links.allow(landing)
        dev = repo.create_branch("dev", "main")
        gs.import_(dev, landing, "in/", message="import", method="spark", spark=spark)
        seen["imported"] = tables.read("dev", "in/").count()
        try:
            tables.read("main", "orders/", format="delta")
        except InvalidInputError as error:
            seen["refused"] = str(error)
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(str(Path(sys.argv[1])))))
