"""Dumping and restoring the refs of a repository."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from graveler.base.background import batches
from graveler.base.local_files import storage_errors
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    ProtectedBranchError,
    StateError,
)
from graveler.kv.store import ABSENT
from graveler.model import BranchRecord, Commit
from graveler.publishing.panel import enforce
from graveler.reads.local.folders import descriptor_of, lake_files, whole_file
from graveler.reads.stores import Stores
from graveler.refs.commits import Expired
from graveler.refs.dump import Contents, Header, RefSet, commits_in, read_dump, write_dump
from graveler.refs.mover import move
from graveler.refs.refs import Refs
from graveler.refs.settings import Setting
from graveler.repository.positions import first_base
from graveler.repository.wholeness import Wholeness, check_commits, record_missing

_RESTORE = "restore"

Follows = Callable[[str, str], bool]
"""Returns whether a branch at the first commit may be moved to the second one."""


def _never(_head: str, _new: str) -> bool:
    return False


_CHUNK = 1_000
_SHOWN = 5


def dump(stores: Stores, path: Path, *, storage: str, settings: Sequence[Setting[Any]]) -> Contents:
    """Write all refs to a file.

    Args:
        path: The file. An existing file is replaced when the new one is complete.

    Raises:
        StateError: The storage is Keep, whose names of objects the dump would lack.
    """
    if stores.storage.startswith("keep://"):
        raise StateError(
            f"the names of objects in {stores.storage} are in the key-value store, so a dump of refs "
            "restores nothing: back up the key-value store itself (docs/guides/backups.md)"
        )
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder: name a file for the dump")
    if not path.parent.is_dir():
        raise NotFoundError(f"no folder {path.parent} for the dump: make it first")
    place = Path(os.path.realpath(path))  # a link stays, and its target is replaced
    if (place.exists() and not place.is_file()) or descriptor_of(path) is not None:
        raise InvalidInputError(
            f"{path} is not a regular file, and a dump replaces it: name another"
        )
    lake_files(stores).check(place)
    header = Header(
        repository=stores.name,
        storage=storage,
        default_branch=stores.default_branch,
        splitting=stores.splitting.encode(),
        storage_id=stores.storage_id,
        settings={each.name: each.encode(stores.refs.settings.get(each)) for each in settings},
    )
    with storage_errors(f"write {path}", writing=True), whole_file(place) as file:
        contents = write_dump(stores.refs, header, file)
        file.flush()
        os.fsync(file.fileno())
    return contents


def check_storage(
    ranges: RangeStore,
    path: Path,
    contents: Contents,
    *,
    known: Mapping[str, Expired],
    missing: int | None,
) -> Wholeness:
    """Return which commits of a dump the storage lacks parts of. Nothing is written."""
    kept = (commit for commit in commits_in(path) if commit.id not in contents.expired)
    heads = {head for head, _ in contents.branches.values()} | set(contents.tags.values())
    return check_commits(ranges, kept, heads, known=known, missing=missing, new=heads)


def restore(
    stores: Stores,
    path: Path,
    *,
    settings: Sequence[Setting[Any]],
    missing: int | None,
    found: Wholeness | None = None,
) -> Contents:
    """Restore all refs of a dump. Existing refs and settings stay. The call may be repeated."""
    contents = read_dump(path)
    check_room(stores.refs, contents)
    if found is None:
        known = dict(stores.refs.expired.list())
        found = check_storage(stores.ranges, path, contents, known=known, missing=missing)
    what = f"settings in {path}"
    dumped = contents.header.settings
    values = [
        (each, each.stored.read(dumped[each.name], f"{what}, {each.name},"))
        for each in settings
        if each.name in dumped
    ]
    record_missing(stores, found)
    for setting, value in values:
        _restore_setting(stores.refs, setting, value)
    # what a left out ref names cannot be read
    lost = {*found.missing, *contents.expired}
    for name in [name for name, (to, _) in contents.branches.items() if to in lost]:
        del contents.branches[name]
    for name in [name for name, to in contents.tags.items() if to in lost]:
        del contents.tags[name]
    gates = list(stores.refs.requirements.rules())

    def judge() -> None:
        for name, (head, _) in contents.branches.items():
            record = stores.refs.branches.find(name)
            at_head = record is not None and record.commit_id == head
            if not at_head and any(fnmatchcase(name, pattern) for pattern in gates):
                commit = stores.refs.commits.get(head)
                enforce(stores, _RESTORE, name, commit, first_base(stores, commit))

    restore_refs(stores.refs, contents, commits_in(path), judge=judge)
    return contents


def _restore_setting(refs: Refs, setting: Setting[Any], value: Any) -> None:
    if refs.settings.get(setting) == setting.default != value:
        refs.settings.change(setting, lambda now: value if now == setting.default else now)


def check_room(refs: Refs, contents: RefSet, follows: Follows = _never) -> None:
    """Refuse refs whose names are in use for other commits."""
    taken = []
    for name, (head, _) in contents.branches.items():
        record = refs.branches.find(name)
        if record is not None and not _is_free(refs, record, head, follows):
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
    _check_rules(refs, contents)


def _check_rules(refs: Refs, contents: RefSet) -> None:
    """Refuse a dump that would create or move a branch in spite of rules that the dump lacks.

    Gates that the dump also has judge its branches when the commits are there.
    """
    here: dict[str, dict[str, Any]] = {
        "protection": dict(refs.protection.rules()),
        "required gates": dict(refs.requirements.rules()),
    }
    dumped: dict[str, dict[str, Any]] = {
        "protection": dict(contents.rules),
        "required gates": dict(contents.gates),
    }
    for name, (head, _) in contents.branches.items():
        record = refs.branches.find(name)
        if record is not None and record.commit_id == head:
            continue
        for kind, rules in here.items():
            for pattern, rule in rules.items():
                if fnmatchcase(name, pattern) and dumped[kind].get(pattern) != rule:
                    raise ProtectedBranchError(
                        f"branch {name!r} would be restored past the {kind} of {pattern!r}, which "
                        "the dump does not have, and nothing was written; restore it into a new "
                        "repository, or remove that rule first"
                    )


def _is_free(refs: Refs, record: BranchRecord, head: str, follows: Follows) -> bool:
    """Return whether the branch is at `head`, or may be moved there."""
    now = record.commit_id
    if now == head:
        return True
    return not record.fence and (not refs.commits.get(now).parents or follows(now, head))


def restore_refs(
    refs: Refs,
    contents: RefSet,
    commits: Iterable[Commit],
    *,
    action: str = _RESTORE,
    follows: Follows = _never,
    judge: Callable[[], None] = lambda: None,
) -> None:
    """Restore all refs of a dump, or of another repository. Existing refs stay.

    Args:
        commits: The commits that they reach, parents before children, with their ids checked.
        judge: Called when the commits are there, before any other record is written.
    """
    fresh = (commit for commit in commits if refs.commits.find(commit.id) is None)
    for chunk in batches(fresh, _CHUNK):
        refs.commits.add_all(chunk)
    judge()
    for identifier, expired in contents.expired.items():
        if refs.expired.find(identifier) is None:
            refs.expired.write(identifier, expired, ABSENT)
    rules = refs.protection.rules()
    if not contents.rules.keys() <= rules.keys():
        refs.protection.replace({**contents.rules, **rules})
    if not contents.gates.keys() <= refs.requirements.rules().keys():
        refs.requirements.change(lambda gates: {**contents.gates, **gates})
    for name, head in contents.tags.items():
        if refs.tags.find(name) != head:
            refs.tags.create(name, head, action=action)
    for name, (head, hidden) in contents.branches.items():
        if refs.branches.find(name) is None:
            refs.branches.start(name, head, hidden=hidden, action=action)
        else:
            _move_branch(refs, name, head, action, follows)


def _move_branch(refs: Refs, name: str, head: str, action: str, follows: Follows) -> None:
    def change(record: BranchRecord) -> BranchRecord:
        if record.commit_id == head:
            return record
        if not _is_free(refs, record, head, follows):
            raise AlreadyExistsError(
                f"branch {name!r} was moved while the dump was restored: it stays where it is"
            )
        return replace(record, commit_id=head)

    move(refs, name, change, action=action, landed=lambda now: now.commit_id == head)
