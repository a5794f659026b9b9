"""Runs whose tasks are Spark jobs, by spark-submit and by Spark Connect."""

import os
from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag, task

from graveler_airflow import TaskStep, graveler_run, step_env

START = datetime(2013, 1, 1, tzinfo=UTC)
SUBMIT = 'spark-submit --master "$SPARK_MASTER" --properties-file "$SPARK_SETTINGS" "$SPARK_JOB"'
LEFT = "{{ var.value.marks }}/left left"


@dag(schedule=None, start_date=START)
def submitted():
    """The first task loses contact with a driver that continues. The second task has no driver."""
    with graveler_run("flights") as run:
        left = BashOperator(
            task_id="left",
            bash_command=f"""
                if [ {{{{ ti.try_number }}}} = 1 ]; then
                  setsid {SUBMIT} left {{{{ var.value.marks }}}} >/dev/null 2>&1 &
                  until [ -e "{LEFT}" ]; do sleep 0.2; done
                  exit 1
                fi
                exec {SUBMIT} left {{{{ var.value.marks }}}}
            """,
            env=step_env(run),
            append_env=True,
            retries=1,
        )

        @task.graveler
        def connected(step: TaskStep):
            from pyspark.sql import SparkSession

            spark = SparkSession.builder.remote(os.environ["SPARK_CONNECT"]).getOrCreate()  # noqa: TID251 - Airflow's
            step.write(spark.range(500), "connected")
            spark.stop()

        left >> connected(run)


@dag(schedule=None, start_date=START)
def failing():
    with graveler_run("flights") as run:
        BashOperator(
            task_id="failed",
            bash_command=f"exec {SUBMIT} failed {{{{ var.value.marks }}}}",
            env=step_env(run),
            append_env=True,
        )


submitted()
failing()
