"""Which assets wrote what is on the branch of a run, and whether they may be published."""

from collections.abc import Collection, Iterator

import dagster as dg

from graveler.errors import RefNotFoundError, RunStateError
from graveler.lake import Repository, Run
from graveler.model import Commit

__all__ = ["check_written"]


def check_written(repository: Repository, run: Run, assets: Collection[dg.AssetKey]) -> None:
    """Refuse to publish what other assets wrote: it would come to the target past their gates.

    What no asset wrote, as an op, is let through.

    Args:
        repository: Where the run is.
        run: The run, before it is published.
        assets: Those that may be published.

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
                f"pipeline, or make it a dependency of the publishing asset; `graveler run abandon "
                f"{run.key!r}` gives up what an earlier Dagster run left, then launch all assets anew"
            )


def _commits(repository: Repository, run: Run) -> Iterator[Commit]:
    """Yield the commits of the run's branch that the run has made, the newest first."""
    try:
        for commit in repository.log(run.branch, first_parent=True):
            if commit.metadata.get("graveler.run") != run.key:
                return
            if "graveler.published" in commit.metadata:
                return
            yield commit
    except RefNotFoundError:
        return  # published, or given up
