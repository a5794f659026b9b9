"""Refuses to publish files of assets that the publishing asset does not depend on."""

from collections.abc import Collection, Iterator

import dagster as dg

from graveler.errors import RefNotFoundError, RunStateError
from graveler.lake import Repository, Run
from graveler.model import Commit


def check_written(repository: Repository, run: Run, assets: Collection[dg.AssetKey]) -> None:
    """Refuse to publish the work of other assets: it would reach the target without their gates.

    The work of ops, which belongs to no asset, is not refused.

    Args:
        repository: The repository of the run.
        run: The run, before it is published.
        assets: The assets that may be published.

    Raises:
        RunStateError: Another asset wrote on the run's branch.
    """
    names = {key.to_user_string() for key in assets}
    for commit in _commits(repository, run):
        writers = commit.metadata.get("dagster.asset", "")
        if writers and names.isdisjoint(writers.split(",")):
            raise RunStateError(
                f"run {run.key!r} holds what {writers} wrote, in {commit.id[:12]}, and here only "
                f"{', '.join(sorted(names))} may be published: publish {writers} with its own "
                f"pipeline, or make it a dependency of the publishing asset; if an earlier Dagster "
                f"run left it, `graveler run abandon {run.key!r}` and launch all assets again"
            )


def _commits(repository: Repository, run: Run) -> Iterator[Commit]:
    """Yield the commits that the run has made on its branch, newest first."""
    try:
        for commit in repository.log(run.branch, first_parent=True):
            if commit.metadata.get("graveler.run") != run.key:
                return
            if "graveler.published" in commit.metadata:
                return
            yield commit
    except RefNotFoundError:
        return  # the run is published or abandoned
