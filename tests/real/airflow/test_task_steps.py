"""Frames in the step of an Airflow task."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

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


def test_the_folder_of_an_hour_with_several_runs_warns(caplog):
    often = SimpleNamespace(dag_id="often", timetable=SimpleNamespace(delta=timedelta(minutes=30)))
    context: Any = {"dag": often, "partition_key": "2013-01-01T05:30"}
    step = TaskStep.of(SimpleNamespace(), context)  # type: ignore[arg-type]
    assert step.partition_prefix("a") == "a/2013/01/01/05:30/"
    assert not caplog.text
    assert step.hour_prefix("a") == "a/2013/01/01/05:00/"
    assert "DAG 'often' has several runs in an hour" in caplog.text
