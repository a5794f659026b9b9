# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""Another deployment of Airflow on the same lake, without its services, for one run.

It prints ``published``, or why it could not open the run. Its first argument is the run's key; a second
one lets it take the run over.
"""

import sys
from datetime import datetime

from graveler_airflow import GravelerHook
from tests.real.airflow.played import Played
from tests.real.chaos.hours import STEPS, run_step


def main(key, *, take_over):
    """Open a run as this deployment. If it may take the run over, make the hour and publish it."""
    with GravelerHook().repository("hours") as repository:
        return work(repository, *key.split(), take_over=take_over)


def work(repository, dag_id, partition, *, take_over):
    """Open the run of a partition; if it may be taken over, make the hour and publish it."""
    played = Played(repository, dag_id, partition=partition, take_over=take_over)
    hour = datetime.fromisoformat(f"{partition}+00:00")
    try:
        played.open()
        for name in STEPS:
            played.do(name, lambda step, name=name: run_step(name, step, hour, lambda _: None))
        played.merge()
        played.close()
    except Exception as error:  # noqa: BLE001 - the driver reads it
        return f"{type(error).__name__}: {error}"
    return "published"


if __name__ == "__main__":
    print(main(sys.argv[1], take_over=bool(sys.argv[2])))
