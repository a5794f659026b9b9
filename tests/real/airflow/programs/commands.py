# mypy: ignore-errors
# Contexts and tasks replace Airflow's own types.
"""Calls `airflow graveler` with wrong arguments; prints the exit codes."""

import contextlib
import io
import json
import os
import sys

os.environ["AIRFLOW_CONN_AWAY"] = "graveler://"  # must be set before Airflow is imported
from airflow.__main__ import main


def ended(*words):
    sys.argv = ["airflow", "graveler", *words]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as error:
        return error.code


print(
    json.dumps(
        {
            "repository": ended("runs", "--repo", "trains"),
            "connection": ended("reap", "--conn-id", "nowhere", "--repo", "telling"),
            "lake": ended("runs", "--conn-id", "away", "--repo", "telling"),
            "state": ended("runs", "--repo", "telling", "--state", "lost"),
        }
    )
)
