"""A driver in a separate process that tests kill: ``WORK URL MARKS``.

``import`` imports the inventory in the folder of marks in bulk. ``step`` does so in the step that
the environment names. ``tables`` writes two tables, and the second one waits. Each writes the id
of its application to the mark ``app``.
"""

import sys
from pathlib import Path

import graveler
from graveler import spark as gs
from tests.harness.servers.spark import SETTINGS
from tests.long.cluster.holding import held


def main(work: str, url: str, folder: str) -> None:
    """Do the work that `work` names."""
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
    with gs.Tables(repo, spark).transaction("main", message="load") as tx:
        tx.write(spark.range(10), "first")
        tx.write(held(spark, marks, 0), "second")


if __name__ == "__main__":
    main(*sys.argv[1:])
