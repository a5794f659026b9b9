"""The refusals of the table that an op, a job or a program of Dagster can meet."""

import json
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import dagster as dg
import pytest

from dagster_graveler import GravelerResource, build_rollback_job
from dagster_graveler.pipes import EXTRA, open_graveler_step
from graveler.errors import GravelerError
from graveler.lake.shared import lend_lake
from tests.refusals.checking import check_refused, rows_of
from tests.refusals.faces import Face
from tests.refusals.scene import scene_in_folder


class Dagster(Face):
    """Ops with the resource: a refusal is the library's error, or a failure that it caused."""

    name = "dagster"
    ROLLBACK: ClassVar = build_rollback_job()

    def refusal(self, call):
        name, *arguments = call
        with (
            dg.DagsterInstance.ephemeral() as instance,
            lend_lake(self.scene.lake),
            pytest.raises((GravelerError, dg.Failure)) as caught,
        ):
            getattr(self, name)(instance, *arguments)
        error = caught.value
        cause = error.__cause__ if isinstance(error, dg.Failure) else error
        return type(cause), str(cause)

    @classmethod
    def shown(cls, error):
        return error

    def _resource(self, into="main"):
        return GravelerResource(
            lake=self.scene.lake.location, repository=self.scene.name, into=into
        )

    def _in_op(self, instance, body, into="main", job="job"):
        @dg.op
        def work(context: dg.OpExecutionContext, graveler: GravelerResource) -> None:
            body(context, graveler)

        graph = dg.GraphDefinition(job, node_defs=[work])
        graph.to_job(resource_defs={"graveler": self._resource(into)}).execute_in_process(
            instance=instance
        )

    def read(self, instance, ref, path):
        self._in_op(instance, lambda _, graveler: graveler.at(ref).get(path))

    def list(self, instance, ref, prefix):
        self._in_op(instance, lambda _, graveler: [*graveler.at(ref).list(prefix)])

    def open_run(self, instance, key, into):
        self._in_op(instance, lambda context, graveler: graveler.run(context), into, key)

    def step(self, instance, name):
        run = json.loads(self.scene.handle)
        extras = {EXTRA: {"run": run, "step": name, "try": 1, "metadata": {}}}
        with open_graveler_step(cast("Any", SimpleNamespace(extras=extras)), report=False):
            pass

    def rollback(self, instance, key):
        self.ROLLBACK.execute_in_process(
            run_config={"ops": {"graveler_rollback_run": {"config": {"run": key}}}},
            resources={"graveler": self._resource()},
            instance=instance,
        )


# a run of Dagster has a key of its own for each target; the cache of a folder has lost tables
OTHERS = {"open_run hour dev", "list main a"}
ROWS = [row for row in rows_of(Dagster, struck=False) if row.call not in OTHERS]


@pytest.fixture(scope="module")
def scene_of(tmp_path_factory):
    """Return a scene that the rows of a situation share, because a refusal changes nothing."""
    scenes = {}

    def scene(situation):
        if situation not in scenes:
            scenes[situation] = scene_in_folder(tmp_path_factory.mktemp("lake"))
        return scenes[situation]

    yield scene
    for made in scenes.values():
        made.lake.close()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name[:60])
def test_a_refused_op_shows_the_error_and_changes_nothing(row, scene_of):
    assert not row.changes
    check_refused(row, Dagster, scene_of(row.situation))
