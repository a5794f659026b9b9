"""Frames in the step of an Airflow task."""

import graveler
from graveler_airflow.dag.handles import TaskStep


def test_a_task_reads_with_the_session_it_is_given(spark, tmp_path):
    own = spark.newSession()
    with (
        graveler.open(tmp_path / "lake", create=True) as lake,
        lake.create_repository("tables").run("hour") as run,
        run.step("load") as step,
    ):
        task_step = TaskStep.of(step, {})
        task_step.write(own.range(3), "numbers")
        frame = task_step.read("numbers/", spark=own)
        assert frame.sparkSession is own
        assert sorted(row.id for row in frame.collect()) == [0, 1, 2]
