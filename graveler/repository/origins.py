"""The origins of commits and entries: work that gates refused, or have not judged, stays out."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial

from graveler.errors import InvalidInputError, NotFoundError, RunStateError
from graveler.model import Commit, Entry
from graveler.names import is_of_run, run_branch
from graveler.reads.stores import Stores
from graveler.refs import line_outside, moves_ago


def refuse_unpublished(stores: Stores, source: Commit, dest: Commit, into: str = "") -> None:
    """Refuse the work of an unpublished run and quarantined work of ingestion.

    Gates have not judged the former and have refused the latter. The source's own line is searched,
    down to the first commit that the destination contains. A merge into the line was checked when
    it was made. A run's own work is not refused on its branch, which `into` names.
    """
    taken_off: set[str] = set()
    for commit in line_outside(stores.refs.commits, source.id, dest.id):
        taken_off.update(commit.metadata.get("graveler.taken-off", "").split(","))
        key = commit.metadata.get("graveler.run")
        own = key is not None and f"{into}.".startswith(f"{run_branch(key)}.")
        if key is not None and not own and "graveler.published" not in commit.metadata:
            raise RunStateError(
                f"commit {commit.id[:12]} is work of run {key!r}, which is not published: "
                "publish it through a new attempt of the run"
            )
        shelf = commit.metadata.get("graveler.quarantine")
        if shelf is None and "graveler.target" in commit.metadata and commit.id not in taken_off:
            row = stores.kv.get(f"ingest:{stores.uid}", _refused(commit.id))
            shelf = None if row is None else row.value.decode()
        if shelf is not None:
            raise RunStateError(
                f"commit {commit.id[:12]} was refused by gates and is in quarantine: correct branch "
                f"{shelf!r}, then release it with `graveler ingest release {shelf}`"
            )


def note_refused(stores: Stores, commits: Iterable[str], shelf: str) -> None:
    """Note that commits of ingestion were refused and are in quarantine; "" ends that."""
    partition, keys = f"ingest:{stores.uid}", map(_refused, commits)
    if shelf:
        stores.kv.set_many(partition, ((key, shelf.encode()) for key in keys))
    else:
        stores.kv.delete_many(partition, keys)


def _refused(commit: str) -> bytes:
    return f"refused/{commit}".encode()


def refuse_origin(stores: Stores, into: str, origin: str) -> None:
    """Refuse entries of an unpublished run and of quarantine, as merges refuse their commits.

    A run's branch takes the run's own work.

    Raises:
        RunStateError: The origin is such a view, or one that no longer exists.
    """
    own = is_of_run(into) and (origin.startswith(f"{into}.") or into.startswith(f"{origin}."))
    if own or origin in ("", into):
        return
    source = None if is_of_run(origin) else _commit_of(stores, origin)
    if source is None:
        raise RunStateError(
            f"an entry for branch {into!r} was read from {origin!r}, which is not published: publish it, "
            "then read the entry from the branch that has it"
        )
    dest = stores.refs.commits.get(stores.refs.branches.get(into).commit_id)
    refuse_unpublished(stores, source, dest, into)


def checked(stores: Stores, into: str, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries, each after `refuse_origin` has accepted its origin."""
    refuse = cache(partial(refuse_origin, stores, into))
    for entry in entries:
        refuse(entry.origin)
        yield entry


def _commit_of(stores: Stores, origin: str) -> Commit | None:
    """Return the commit of an origin: its own, or that of a branch, which may be deleted."""
    refs = stores.refs
    commit = refs.commits.find(origin)
    with suppress(NotFoundError, InvalidInputError):
        if commit is None:
            record = refs.branches.find(origin)
            last = moves_ago(refs, origin, 1) if record is None else record.commit_id
            return refs.commits.find(last or "")
    return commit
