"""A program like those of spark-submit: it uses Pipes and graveler, and not Dagster."""

import sys

from dagster_pipes import open_dagster_pipes

from dagster_graveler.pipes import open_graveler_step
from graveler.config import environment

if __name__ == "__main__":
    with open_dagster_pipes() as pipes, open_graveler_step(pipes) as step:
        step.put(f"made/{pipes.partition_key}/{environment('TEST_NAME')}", b"by a program")
        if environment("TEST_NAME") == "broken":
            raise ConnectionError("lost")
    loaded = "dagster" in sys.modules
    sys.exit("it has loaded Dagster" if loaded else 0)
