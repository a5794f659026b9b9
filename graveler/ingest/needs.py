"""What waits on ingestion branches and in quarantine: garbage collection keeps its trees."""

from collections.abc import Iterator

from graveler.ingest.quarantine import shelf_base
from graveler.ingest.records import IngestRecords, branches_of
from graveler.ingest.unpublished import IngestBranch, last_sealed, unpublished_line
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs.history import merge_bases


def needed_commits(stores: Stores) -> Iterator[tuple[str, str]]:
    """Yield the commits whose trees ticks and releases will read, with labels for a report.

    After a reset of the target, a commit that was published and is expired waits again. It is gone.
    """
    expired = stores.refs.expired
    return (need for need in _needed(stores) if expired.find(need[1]) is None)


def _needed(stores: Stores) -> Iterator[tuple[str, str]]:
    refs = stores.refs
    for name in branches_of(stores):
        records = IngestRecords(stores, name)
        standing = records.standing()
        branch = IngestBranch(stores, records, name, standing.into or "main")
        if all(refs.branches.find(one) for one in (name, branch.into)):
            for commit in _waiting(branch, standing.sealed):
                yield f"ingestion {name}", commit
        for quarantine in records.quarantines():
            record = refs.branches.find(quarantine.name)
            if record is not None and not quarantine.released:
                base = shelf_base(refs.commits, refs.commits.get(record.commit_id))
                yield f"quarantine {quarantine.name}", base.id
        for identifier in standing.taking.commits if standing.taking else ():
            yield from (
                (f"ingestion {name}", one) for one in _with_parents(refs.commits.get(identifier))
            )


def _waiting(branch: IngestBranch, sealed: str) -> Iterator[str]:
    commits, (head, target) = branch.stores.refs.commits, branch.tips()
    for commit in unpublished_line(commits, head, target):
        yield from _with_parents(commit)
    since = last_sealed(commits, head, lambda: sealed)
    yield since.id
    yield from (base.id for base in merge_bases(commits, since.id, target.id))


def _with_parents(commit: Commit) -> tuple[str, ...]:
    return (commit.id, *commit.parents)
