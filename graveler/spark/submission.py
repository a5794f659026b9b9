"""The step of a run for a driver that a cluster starts: settings of spark-submit, and their reader.

A driver that is a child process of the task inherits the variables of the step. A driver that YARN,
Kubernetes or a service starts on another machine does not, but it has the settings of its session.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from graveler.base.arguments import instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")

_PREFIX = "spark.graveler.secret."
"""Prefix of the settings; Spark redacts values of settings with such a name on its pages and in logs."""


def submit_settings(variables: Mapping[str, _T]) -> dict[str, _T]:
    """Return the settings with which spark-submit passes a step to a driver on another machine.

    ::

        settings = gs.submit_settings(step.environment())
        conf = [f"--conf={name}={value}" for name, value in settings.items()]
        subprocess.run(["spark-submit", "--deploy-mode=cluster", *conf, "job.py"], check=True)

    The program reads them with `submitted_step`. Spark redacts their values, but the command line of
    spark-submit shows them. They have a password only for a lake without a file.

    Args:
        variables: The result of ``step.environment()``, ``run.step_environment(name)`` or Airflow's
            ``step_env(run)``.
    """
    instance(variables, "variables", Mapping, "a mapping")
    return {f"{_PREFIX}{name}": value for name, value in variables.items()}


def submitted_step(spark: "SparkSession") -> dict[str, str]:
    """Return the variables of the step that `submit_settings` passed to this driver.

    ::

        with graveler.attach(gs.submitted_step(spark)) as step:
            step.write(frame, "output/")
    """
    settings = spark.conf.getAll
    return {
        name.removeprefix(_PREFIX): value
        for name, value in settings.items()
        if name.startswith(_PREFIX)
    }
