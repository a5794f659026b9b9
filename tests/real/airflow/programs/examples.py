# mypy: ignore-errors
"""Runs DAGs one by one, as ``airflow dags test`` does, and prints the states of their tasks.

An argument is ``dag_id`` or ``dag_id=conf``, where conf is JSON.
"""

import json
import sys
import warnings

warnings.filterwarnings("error", module="graveler")

from airflow.cli.cli_parser import get_parser
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select

parser = get_parser()
results = {}
for argument in sys.argv[1:]:
    dag_id, _, conf = argument.partition("=")
    words = ["dags", "test", dag_id, "2013-01-01T05:00:00+00:00"]
    failure = ""
    try:
        args = parser.parse_args([*words, *(["--conf", conf] if conf else [])])
        args.func(args)
    except SystemExit as error:
        failure = str(error)
    with create_session() as session:
        rows = session.execute(
            select(TaskInstance.task_id, TaskInstance.state).where(TaskInstance.dag_id == dag_id)
        )
        results[dag_id] = {name: str(state) for name, state in rows}
    if failure:
        results[dag_id]["failure"] = failure
print(json.dumps(results))
