"""The step of a run for a driver that a cluster starts: settings of spark-submit, and their reader.

A driver that is a child of the task inherits the variables of the step. One that YARN, Kubernetes or a
service starts on another machine does not, but it has the settings of its session.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from graveler.arguments import instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")

_PREFIX: Final = "spark.graveler.secret."
"""Spark shows no value of a setting with such a name, neither on its pages nor in its logs."""


def submit_settings(variables: Mapping[str, _T]) -> dict[str, _T]:
    """Return the settings by which spark-submit hands a step to a driver on another machine.

    ::

        settings = gs.submit_settings(step.environment())
        conf = [f"--conf={name}={value}" for name, value in settings.items()]
        subprocess.run(["spark-submit", "--deploy-mode=cluster", *conf, "job.py"], check=True)

    The program reads them by `submitted_step`. Spark redacts their values. The command line of
    spark-submit shows them; they hold a password only for a lake without a file.

    Args:
        variables: What ``step.environment()``, ``run.step_environment(name)`` or Airflow's
            ``step_env(run)`` returns.
    """
    instance(variables, "variables", Mapping, "a mapping")
    return {f"{_PREFIX}{name}": value for name, value in variables.items()}


def submitted_step(spark: "SparkSession") -> dict[str, str]:
    """Return the variables of the step that `submit_settings` handed to this driver.

    ::

        with graveler.attach(gs.submitted_step(spark)) as step:
            step.write(frame, "output/")

    Args:
        spark: The session.
    """
    settings = spark.conf.getAll
    return {
        name.removeprefix(_PREFIX): value
        for name, value in settings.items()
        if name.startswith(_PREFIX)
    }
