"""Backfills by the iterations of Dagster's daemon; every run works in this process."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster._core.definitions.selector import (
    PartitionRangeSelector,
    PartitionsByAssetSelector,
    PartitionsSelector,
)
from dagster._core.execution.api import execute_run
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.test_utils import MockedRunCoordinator, instance_for_test
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._daemon.sensor import execute_sensor_iteration
from dagster._utils.hosted_user_process import recon_job_from_origin

from graveler.base.clock import SystemClock

_MOST_ITERATIONS = 20


class Daemon:
    """The daemon of an instance, for the definitions of one file.

    Attributes:
        instance: The instance.
        workspace: The workspace with the file.
    """

    def __init__(self, instance: dg.DagsterInstance, workspace: WorkspaceProcessContext) -> None:
        self.instance = instance
        self.workspace = workspace
        self._asked = 0

    def backfill(self, assets, partitions) -> str:
        """Do a backfill to its end; return its status."""
        self._asked += 1
        name = f"backfill{self._asked}"
        selected = PartitionsSelector(
            ranges=[PartitionRangeSelector(start=partitions[0], end=partitions[-1])]
        )
        graph = self.workspace.create_request_context().asset_graph
        self.instance.add_backfill(
            PartitionBackfill.from_partitions_by_assets(
                backfill_id=name,
                asset_graph=graph,
                backfill_timestamp=SystemClock().now().timestamp(),
                tags={},
                dynamic_partitions_store=self.instance,
                partitions_by_assets=[
                    PartitionsByAssetSelector(asset_key=dg.AssetKey(asset), partitions=selected)
                    for asset in assets
                ],
                title=None,
                description=None,
                run_config=None,
            )
        )
        status = ""
        for _ in range(_MOST_ITERATIONS):
            self.iterate()
            backfill = self.instance.get_backfill(name)
            status = "gone" if backfill is None else backfill.status.value
            if status.startswith(("COMPLETED", "FAILED", "CANCELED")):
                break
        return status

    def iterate(self) -> None:
        """Do one iteration of all backfills, and then the runs that it has requested."""
        log = logging.getLogger("daemon")
        assert not [error for error in execute_backfill_iteration(self.workspace, log) if error]
        self._work()

    def sense(self) -> None:
        """Evaluate the sensors that are on and due, and then do the runs that they have requested."""
        log = logging.getLogger("daemon")
        ticks = execute_sensor_iteration(self.workspace, log, None, None)
        assert not [error for error in ticks if error]
        self._work()

    def _work(self) -> None:
        """Do the runs of the queue."""
        coordinator = self.instance.run_coordinator
        assert isinstance(coordinator, MockedRunCoordinator)
        queue = coordinator.queue()
        for run in queue:
            execute_run(recon_job_from_origin(run.job_code_origin), run, self.instance)
        queue.clear()

    def runs(self) -> list[tuple[set[str], str, str]]:
        """Return the assets, the partition and the status of each run, the oldest first."""
        return [
            (
                {key.to_user_string() for key in run.asset_selection or ()},
                run.tags.get("dagster/partition", ""),
                run.status.value,
            )
            for run in reversed(self.instance.get_runs())
        ]


@contextmanager
def daemon_of(file: str) -> Iterator[Daemon]:
    """Yield a daemon for the definitions of a file."""
    origin = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(executable_path=sys.executable, python_file=file), location_name="here"
    )
    with (
        instance_for_test(
            {
                "run_coordinator": {
                    "module": MockedRunCoordinator.__module__,
                    "class": MockedRunCoordinator.__name__,
                }
            }
        ) as instance,
        WorkspaceProcessContext(instance, InProcessWorkspaceLoadTarget(origin)) as workspace,
    ):
        yield Daemon(instance, workspace)
