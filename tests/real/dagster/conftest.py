"""A lake with a repository, no lake left open by the resource, and a temporary Dagster instance."""

import dagster as dg
import pytest

import graveler
from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    build_publish_asset,
    graveler_definitions,
)
from dagster_graveler.resource import forget_runs
from graveler.lake.shared import close_lakes
from tests.real.dagster.programs.looking import span


@pytest.fixture
def lake(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as made:
        made.create_repository("flights").protection.add("main")
    yield str(tmp_path / "lake")
    forget_runs()
    close_lakes()


@pytest.fixture
def resource(lake):
    return GravelerResource(lake=lake, repository="flights")


@pytest.fixture
def repo(resource):
    return resource.repo()


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def make(resource, instance):
    """Make assets and publish those with the first one's partitions, without other definitions."""

    def run(*assets, partition=None, ends=(), publishes=(), graveler=resource, **given):
        first, manager = assets[0], given.pop("manager", {})
        publish = build_publish_asset(
            "publish",
            publishes or [each for each in assets if each.partitions_def == first.partitions_def],
            gates=given.pop("gates", ()),
            partitions_def=first.partitions_def,
            backfill_policy=first.backfill_policy,
        )
        return dg.materialize(
            [*assets, publish],
            resources={
                "graveler": graveler,
                "io_manager": GravelerIOManager(graveler=graveler, **manager),
            },
            instance=instance,
            partition_key=partition,
            tags=span(*ends) if ends else None,
            **given,
        )

    return run


@pytest.fixture
def run_job(resource, instance):
    """Run the job of `graveler_definitions`; return its result."""

    def run(assets, partition=None, ends=(), raise_on_error=True, job="", **given):
        manager = GravelerIOManager(graveler=resource, **given.pop("manager", {}))
        given = {"io_manager": manager, "name": "graveler", **given}
        defs = graveler_definitions(assets, resource, **given)
        return defs.resolve_job_def(job or f"{given['name']}_job").execute_in_process(
            instance=instance,
            partition_key=partition,
            tags=span(*ends) if ends else None,
            raise_on_error=raise_on_error,
        )

    return run
