"""The origins of commits and entries: work that gates refused, or have not judged, stays out."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from graveler.errors import InvalidInputError, NotFoundError, RunStateError
from graveler.model import Commit, Entry
from graveler.names import is_of_run, run_branch
from graveler.reads.stores import Stores
from graveler.refs import line_outside, moves_ago


def refuse_unpublished(stores: Stores, source: Commit, dest: Commit, *, run: str = "") -> None:
    """Refuse the work of an unpublished run and quarantined work of ingestion.

    Gates have not judged the former and have refused the latter. The source's own line is searched,
    down to the first commit that the destination contains. A merge into the line was checked when
    it was made. The work of `run` is not refused: the destination is its branch.
    """
    for commit in line_outside(stores.refs.commits, source.id, dest.id):
        key = commit.metadata.get("graveler.run")
        if key not in (None, run) and "graveler.published" not in commit.metadata:
            raise RunStateError(
                f"commit {commit.id[:12]} is work of run {key!r}, which is not published: "
                "publish it through a new attempt of the run"
            )
        shelf = commit.metadata.get("graveler.quarantine")
        if shelf is not None:
            raise RunStateError(
                f"commit {commit.id[:12]} was refused by gates and is in quarantine: correct branch "
                f"{shelf!r}, then release it with `graveler ingest release {shelf}`"
            )


def refuse_origins(stores: Stores, into: str, origins: Iterable[str], *, run: str = "") -> None:
    """Refuse entries of unpublished runs and of quarantine, as merges refuse their commits.

    Args:
        stores: The repository.
        into: The branch that shall get the entries.
        origins: Their origins.
        run: Key of the run that owns the branch, or "".

    Raises:
        RunStateError: An entry is from such a view, or from one that no longer exists.
    """
    own = run_branch(run) if run else into
    for origin in sorted({*origins, ""} - {"", into}):
        if origin == own or origin.startswith(f"{own}.") or into.startswith(f"{origin}."):
            continue
        dest = stores.refs.commits.get(stores.refs.branches.get(into).commit_id)
        source = None if is_of_run(origin) else _commit_of(stores, origin)
        if source is None:
            raise RunStateError(
                f"an entry for branch {into!r} was read from {origin!r}, which is not published: publish "
                "it, then read the entry from the branch that has it"
            )
        refuse_unpublished(stores, source, dest, run=run)


def checked(
    stores: Stores, into: str, entries: Iterable[Entry], *, run: str = ""
) -> Iterator[Entry]:
    """Yield the entries, each after `refuse_origins` has accepted its origin."""
    known = {""}
    for entry in entries:
        if entry.origin not in known:
            refuse_origins(stores, into, [entry.origin], run=run)
            known.add(entry.origin)
        yield entry


def _commit_of(stores: Stores, origin: str) -> Commit | None:
    """Return the commit of an origin: its own, or that of a branch, which may be deleted."""
    refs = stores.refs
    if (commit := refs.commits.find(origin)) is not None:
        return commit
    with suppress(NotFoundError, InvalidInputError):
        record = refs.branches.find(origin)
        last = moves_ago(refs, origin, 1) if record is None else record.commit_id
        return None if last is None else refs.commits.find(last)
    return None
