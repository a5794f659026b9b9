# mypy: ignore-errors
"""What the library refuses fails a task without a retry, with the library's words."""

from typing import ClassVar

import pytest
from airflow.sdk import DAG

import graveler_airflow as ga
from graveler.lake import RunHandle
from graveler_airflow.dag.handles import pack
from tests.real.airflow.played import context, final
from tests.refusals.checking import check_refused, rows_of
from tests.refusals.faces import Face
from tests.refusals.scene import scene_in_folder

SCENES = {}
"""The scenes by situation. Rows share one, because a refusal changes nothing."""


class Airflow(Face):
    """Operators: the arguments of the calls are theirs, in this order."""

    name = "airflow"
    CALLS: ClassVar = {
        "commit": (ga.GravelerCommitOperator, "branch"),
        "merge": (ga.GravelerMergeOperator, "source", "into"),
        "revert": (ga.GravelerRevertOperator, "commit", "branch"),
        "create_branch": (ga.GravelerCreateBranchOperator, "branch", "source"),
        "delete_branch": (ga.GravelerDeleteBranchOperator, "branch"),
        "delete": (ga.GravelerDeleteOperator, "branch", "paths"),
        "tag": (ga.GravelerTagOperator, "tag", "ref"),
        "rollback": (ga.GravelerRollbackOperator, "run"),
    }

    def refusal(self, call):
        name, *given = call
        with final("^[a-z-]+: ") as failed:
            if name in self.CALLS:
                kind, *names = self.CALLS[name]
                given = dict(zip(names, given, strict=True))
                task = kind(task_id="refused", repo=self.scene.name, **given)
                task.execute(context("refused"))
            else:
                getattr(self, name)(*given)
        code, _, message = str(failed.value).partition(": ")
        return code, message

    @classmethod
    def shown(cls, error):
        return error.code

    @property
    def run(self):
        return pack(RunHandle.from_json(self.scene.handle), "graveler_default", "open_run")

    def publish(self):
        ga.GravelerPublishRunOperator(task_id="refused", run=self.run).execute(context("refused"))

    def step(self, name):
        with DAG("refused"):
            task = ga.graveler_task(lambda step: None, task_id=name)(self.run).operator
        task.execute(context(name))


OTHERS = {"damaged_tree", "two_repositories", "parked"}
"""Here the tree is in a cache, a run's handle names its repository, and a parked run has a hint."""

ROWS = [row for row in rows_of(Airflow, struck=False) if row.situation.__name__ not in OTHERS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name[:60])
def test_a_refused_call_fails_its_task_and_changes_nothing(row, connect, tmp_path_factory):
    scene = SCENES.get(row.situation)
    if scene is None or row.changes:
        scene = SCENES[row.situation] = scene_in_folder(tmp_path_factory.mktemp("scene") / "lake")
    connect(host=scene.lake.location)
    check_refused(row, Airflow, scene)
