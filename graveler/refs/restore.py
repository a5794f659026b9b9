"""Restores refs from a dump, into an empty repository or one that has the same refs."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from graveler.errors import AlreadyExistsError
from graveler.kv.store import ABSENT
from graveler.model import BranchRecord
from graveler.process import batches
from graveler.refs.dump import Contents, commits_in
from graveler.refs.mover import move
from graveler.refs.refs import Refs

_ACTION: Final = "restore"
_CHUNK: Final = 1_000
_SHOWN: Final = 5


def check_room(refs: Refs, contents: Contents) -> None:
    """Refuse a dump whose names are in use for other commits.

    A branch that is still at its first commit has no history, and is replaced.

    Raises:
        AlreadyExistsError: Branches or tags of these names are at other commits.
    """
    taken = []
    for name, (head, _) in contents.branches.items():
        there = refs.branches.find(name)
        if there is not None and there.commit_id != head and not _is_bare(refs, there):
            taken.append(f"branch {name!r}")
    for name, head in contents.tags.items():
        if refs.tags.find(name) not in (None, head):
            taken.append(f"tag {name!r}")
    if taken:
        more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
        raise AlreadyExistsError(
            f"{', '.join(taken[:_SHOWN])}{more}: at other commits than in the dump, and nothing was "
            "written; restore it into a new repository, or delete them first"
        )


def _is_bare(refs: Refs, record: BranchRecord) -> bool:
    return not record.fence and not refs.commits.get(record.commit_id).parents


def restore_refs(refs: Refs, contents: Contents, path: Path) -> None:
    """Restore all refs of a dump; refs that exist already stay.

    Idempotent: branches come last, each by compare-and-set.

    Args:
        refs: The repository's refs.
        contents: What `read_dump` returned for the file, checked by `check_room`.
        path: The file.

    Raises:
        AlreadyExistsError: A name was taken after the check.
    """
    fresh = (commit for commit in commits_in(path) if refs.commits.find(commit.id) is None)
    for chunk in batches(fresh, _CHUNK):
        refs.commits.add_all(chunk)
    for identifier, expired in contents.expired.items():
        if refs.expired.find(identifier) is None:
            refs.expired.write(identifier, expired, ABSENT)
    rules = refs.protection.rules()
    if not contents.rules.keys() <= rules.keys():
        refs.protection.replace({**contents.rules, **rules})
    if not contents.gates.keys() <= refs.requirements.rules().keys():
        refs.requirements.change(lambda there: {**contents.gates, **there})
    for name, head in contents.tags.items():
        if refs.tags.find(name) != head:
            refs.tags.create(name, head, action=_ACTION)
    for name, (head, hidden) in contents.branches.items():
        _restore_branch(refs, name, head, hidden=hidden)


def _restore_branch(refs: Refs, name: str, head: str, *, hidden: bool) -> None:
    if refs.branches.find(name) is None:
        record = BranchRecord(
            name=name, commit_id=head, staging_token=refs.ids.unique(), hidden=hidden
        )
        refs.branches.create(record, action=_ACTION)
        return

    def change(there: BranchRecord) -> BranchRecord:
        if there.commit_id == head:
            return there
        if not _is_bare(refs, there):
            raise AlreadyExistsError(
                f"branch {name!r} was moved while the dump was restored: it stays where it is"
            )
        return replace(there, commit_id=head)

    move(refs, name, change, action=_ACTION, landed=lambda now: now.commit_id == head)
