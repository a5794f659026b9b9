"""The origins of commits and entries: work that gates refused, or have not judged, stays out."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial

from graveler.base.background import batches
from graveler.base.names import is_of_run, run_branch
from graveler.errors import InvalidInputError, NotFoundError, RunStateError
from graveler.kv.store import MAX_KEYS
from graveler.model import Commit, Entry, Move
from graveler.reads.stores import Stores
from graveler.refs.history import is_ancestor, line_outside
from graveler.refs.reflog import moves_ago

_OF_BRANCH = frozenset(
    f"graveler.{name}" for name in ("target", "caught-up", "taken-off", "quarantine")
)


def refuse_unpublished(stores: Stores, source: Commit, dest: Commit, into: str = "") -> None:
    """Refuse the work of an unpublished run and quarantined work of ingestion.

    Gates have not judged the former and have refused the latter. The source's own line is searched,
    down to the first commit that the destination contains. A merge into the line was checked when
    it was made. A run's own work is not refused on its branch, which `into` names. A candidate that
    was never published is refused, too.
    """
    taken_off: set[str] = set()
    candidates: list[Commit] = []
    for commit in line_outside(stores.refs.commits, source.id, dest.id):
        taken_off.update(removed_by(commit))
        key = commit.metadata.get("graveler.run")
        own = key is not None and f"{into}.".startswith(f"{run_branch(key)}.")
        if _was_candidate(commit) and not own:
            candidates.append(commit)
        elif key is not None and not own:
            raise RunStateError(
                f"commit {commit.id[:12]} is work of run {key!r}, which is not published: "
                "publish it through a new attempt of the run"
            )
        shelf = commit.metadata.get("graveler.quarantine")
        if shelf is None and "graveler.target" in commit.metadata and commit.id not in taken_off:
            refuse_quarantined(stores, (commit.id,))
        if shelf is not None:
            raise _in_quarantine(commit.id, shelf)
    refuse_candidates(stores, candidates)


def removed_by(commit: Commit) -> tuple[str, ...]:
    """Return the commits of ingestion whose changes a commit has removed from their branch."""
    return tuple(filter(None, commit.metadata.get("graveler.taken-off", "").split(",")))


def refuse_quarantined(stores: Stores, commits: Iterable[str]) -> None:
    """Refuse commits of ingestion that gates refused and that are still in quarantine."""
    for commit, shelf in in_quarantine(stores, commits).items():
        raise _in_quarantine(commit, shelf)


def in_quarantine(stores: Stores, commits: Iterable[str]) -> dict[str, str]:
    """Return the quarantines of the commits that were refused, by commit."""
    found: dict[str, str] = {}
    for names in batches(commits, MAX_KEYS):
        keys = [(f"ingest:{stores.uid}", _refused(name)) for name in names]
        rows = zip(names, stores.kv.get_many(keys), strict=True)
        found.update((name, row.value.decode()) for name, row in rows if row is not None)
    return found


def _in_quarantine(commit: str, shelf: str) -> RunStateError:
    return RunStateError(
        f"commit {commit[:12]} was refused by gates and is in quarantine: correct branch "
        f"{shelf!r}, then release it with `graveler ingest release {shelf}`"
    )


def refuse_candidates(stores: Stores, commits: Iterable[Commit]) -> None:
    """Refuse candidates of runs and of ingestion that were never published; accept other commits.

    The commits are on one line, the newest first. What the default branch has is published. For the
    rest, the logs of the branches decide. They include what was undone or reset away. A restore
    loses the logs. The history of a restored ref then decides.
    """
    waiting = {commit.id: commit for commit in commits if _was_candidate(commit)}
    refs = stores.refs
    main = refs.branches.find(stores.default_branch) if waiting else None
    if main is not None:
        line = line_outside(refs.commits, next(iter(waiting)), main.commit_id)
        outside = {commit.id for commit in line}
        waiting = {name: commit for name, commit in waiting.items() if name in outside}
    if not waiting:
        return
    for move in _moves(stores):
        if move.action == "publish":
            waiting.pop(move.commit, None)
        elif move.action == "restore":
            held = [name for name in waiting if is_ancestor(refs.commits, name, move.commit)]
            for name in held:
                del waiting[name]
        if not waiting:
            return
    first = next(iter(waiting.values()))
    key = first.metadata.get("graveler.run")
    what = f"branch {first.metadata.get('graveler.ingest')!r}" if key is None else f"run {key!r}"
    raise RunStateError(
        f"commit {first.id[:12]} is a candidate of {what}, which is not published: correct the work "
        "there, then publish it"
    )


def _was_candidate(commit: Commit) -> bool:
    """Return whether a commit was made to be published, by a run or by an ingestion."""
    pairs = commit.metadata
    ingested = "graveler.ingest" in pairs and pairs.keys().isdisjoint(_OF_BRANCH)
    return ingested or "graveler.published" in pairs


def _moves(stores: Stores) -> Iterator[Move]:
    """Yield the moves of the branches of users, then of deleted ones, of tags, and of the default branch.

    Their times say nothing, because clocks may jump.
    """
    moves, main = stores.refs.moves, []
    for record in stores.refs.branches.list(runs=False):
        if record.name == stores.default_branch:
            main.append(record)
        else:
            yield from moves.of(record)
    for name, lives in moves.all_lives().items():
        for life in lives if not is_of_run(name) else ():
            yield from moves.of(life)
    for tag in moves.tags():
        yield from moves.of_tag(tag)
    for record in main:
        yield from moves.of(record)


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
    """Refuse entries of an unpublished run and of quarantine, as merges refuse their commits."""
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
    refuse_removed(stores, source)


def refuse_removed(stores: Stores, source: Commit, judged: Commit | None = None) -> None:
    """Refuse a tree that has a change which is in quarantine.

    A branch to which ingestion publishes has the commit of a refused hour in its history, though
    not on its own line, and the commit that removed the change. The source's line is searched down
    to the first commit that is on the line of `judged`, by default of the default branch, whose
    trees gates have judged.
    """
    commits, partition, prefix = stores.refs.commits, f"ingest:{stores.uid}", _refused("")
    refused = {key[len(prefix) :].decode() for key, _ in stores.kv.scan_below(partition, prefix)}
    if not refused:
        return
    main = stores.refs.branches.find(stores.default_branch) if judged is None else None
    judged = judged if main is None else commits.get(main.commit_id)
    known = filter(None, map(commits.find, refused))
    oldest = min((commit.generation for commit in known), default=source.generation + 1)
    removed: set[str] = set()
    while source.generation >= oldest:
        while judged is not None and judged.generation > source.generation:
            judged = commits.parent(judged, judged.parents[0])
        if source == judged or not source.parents:
            return
        removed.update(removed_by(source))
        if source.id in refused - removed:
            refuse_quarantined(stores, (source.id,))
        source = commits.parent(source, source.parents[0])


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
