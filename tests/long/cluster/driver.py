"""A driver in a process of its own, for a test to kill: ``WORK URL MARKS``.

``import`` imports the inventory beside the marks in bulk, ``step`` does so in the step that the environment
names, and ``tables`` writes two tables, of which the second one waits. Each leaves the id of its application
as the mark ``app``.
"""

import sys
from pathlib import Path

import graveler
from graveler import spark as gs
from tests.harness.servers.spark import SETTINGS
from tests.long.cluster.holding import held


def main(work: str, url: str, folder: str) -> None:
    """Do the work."""
    spark = gs.session(master=url, config=SETTINGS)
    marks = Path(folder)
    (marks / "app").write_text(f"{spark.sparkContext.applicationId}\n")
    rows = spark.read.csv(str(marks / "inventory.csv"), header=True)
    if work == "step":
        with graveler.attach() as step:
            gs.import_frame(step, rows, "in/", message="bulk", slice_rows=2_500)
        return
    repo = graveler.open(marks / "lake").repository("bulk")
    if work == "import":
        gs.import_frame(repo.branch("main"), rows, "in/", message="bulk", slice_rows=250)
        return
    with gs.attach(repo, spark).transaction("main", message="load") as tx:
        tx.write(spark.range(10), "first")
        tx.write(held(spark, marks, 0), "second")


if __name__ == "__main__":
    main(*sys.argv[1:])
