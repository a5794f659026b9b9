"""Commits whose trees are no longer whole, as after a restore that is older than a sweep.

Each metarange, each range and each own address of an entry is looked up once, in the storage. A
commit that lacks one of them is recorded as expired. The record is removed when all are there again.
A staged write that lacks its bytes becomes one that borrows them, so that its commit looks them up.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple, TypeVar

from graveler.base.background import batches
from graveler.base.clock import unix_us
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.references import addresses_of, own_addresses, ranges_of
from graveler.errors import CorruptionError, ObjectNotFoundError
from graveler.kv.store import ABSENT
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.refs.commits import MISSING, Expired
from graveler.refs.dump import heads_of, reachable
from graveler.refs.mover import move
from graveler.refs.settings import UNSOUND
from graveler.repository.writes.links import look_up
from graveler.values import UNKNOWN, stage_value, staged_value

T = TypeVar("T")

_FEW = 20
_CHUNK = 1_000


class Wholeness(NamedTuple):
    """The result of a check of commits.

    Attributes:
        missing: Commits whose trees are incomplete and that no record calls expired.
        returned: Commits that were recorded as missing and whose trees are complete.
        staged: Staged writes without their bytes, as ``branch:path``. They are not committed.
    """

    missing: tuple[str, ...]
    returned: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()


def whole_commits(ranges: RangeStore) -> Callable[[Commit], bool]:
    """Return a function that tells whether a commit is whole; it looks each part up once.

    The function raises CorruptionError for a damaged table, which a backup may have.
    """

    @cache
    def has_range(identifier: bytes, at: int) -> bool:
        if at:  # of claims, which need no files
            return ranges.is_stored(identifier)
        own = _read(lambda: list(addresses_of(ranges, identifier)))
        keys = {key.decode("utf-8", "surrogatepass") for key in own or ()}
        return own is not None and look_up(ranges.objects, keys).keys() == keys

    @cache
    def has_tree(tree: str, at: int) -> bool:
        if tree == EMPTY_METARANGE:
            return True
        infos = _read(lambda: ranges_of(ranges, bytes.fromhex(tree)))
        return infos is not None and all(has_range(info.id, at) for info in infos)

    return lambda commit: all(has_tree(tree, at) for at, tree in enumerate(commit.trees))


def _read(table: Callable[[], list[T]]) -> list[T] | None:
    """Return the records of a table, or None if it is missing."""
    try:
        return table()
    except CorruptionError as error:
        if isinstance(error.__cause__, ObjectNotFoundError):
            return None
        raise error.saying(
            f"{error}; it is damaged, not missing: restore it from a backup; without one, delete it, "
            "so that it counts as missing"
        ) from error


def check_commits(
    ranges: RangeStore,
    commits: Iterable[Commit],
    heads: Collection[str],
    *,
    known: Mapping[str, Expired],
    missing: int | None,
    new: Collection[str] = (),
) -> Wholeness:
    """Return which commits are incomplete. Nothing is written.

    Args:
        missing: How many may be incomplete; None for 5 % of them, and no head.
    """
    is_whole = whole_commits(ranges)
    lost, returned, count = [], [], 0
    for commit in commits:
        count += 1
        record = known.get(commit.id)
        swept = record is not None and record.gone and record.mark != MISSING
        if (record is None or commit.id in new) and (swept or not is_whole(commit)):
            lost.append(commit.id)
        elif record is not None and record.mark == MISSING and is_whole(commit):
            returned.append(commit.id)
    named = sorted(set(lost) & set(heads))
    if len(lost) > (count // _FEW if missing is None else missing) or (named and missing is None):
        what = (
            f"branches or tags name {len(named)} of them" if named else "no branch or tag names one"
        )
        raise ObjectNotFoundError(
            f"{ranges.objects.root} lacks parts of the trees of {len(lost)} of {count} commits, such as "
            f"{(named or lost)[0][:12]}; {what}, and no ref was written: restore the storage; or, "
            f"if they are lost, `--missing {len(lost)}` records them as expired"
        )
    return Wholeness(tuple(lost), tuple(returned))


def record_missing(stores: Stores, found: Wholeness) -> None:
    """Record missing commits as expired, also in branches at them, and returned ones as kept."""
    expired = stores.refs.expired
    gone = Expired(MISSING, unix_us(stores.clock.now()), gone=True)
    for identifier in found.missing:
        if expired.find(identifier) is None:
            expired.write(identifier, gone, ABSENT)
    for identifier in found.returned:
        stored = expired.find(identifier)
        if stored is not None and stored[0].mark == MISSING:
            expired.remove(identifier, stored[1])
    for record in list(stores.refs.branches.list()) if found.missing else ():
        if record.commit_id in found.missing:
            move(stores.refs, record.name, lambda now: replace(now, lost=now.commit_id))
    if found.missing:
        stores.refs.settings.change(UNSOUND, lambda _: True)


def check_refs(stores: Stores, *, missing: int | None) -> Wholeness:
    """Check the commits that branches and tags reach, see `check_commits`, and staged writes."""
    heads = heads_of(stores.refs)
    commits = map(stores.refs.commits.get, reachable(stores.refs, heads))
    known = dict(stores.refs.expired.list())
    found = check_commits(stores.ranges, commits, heads, known=known, missing=missing)
    staged = (
        f"{record.name}:{key.decode()}"
        for record in list(stores.refs.branches.list())
        for token in (record.staging_token, *record.sealed_tokens)
        for key in _doubted(stores, token)
    )
    return found._replace(staged=tuple(dict.fromkeys(staged)))


def _doubted(stores: Stores, token: str) -> Iterator[bytes]:
    """Let the commit of each staged write whose bytes are missing look them up; yield the keys."""
    for rows in batches(stores.staging.scan([token]), _CHUNK):
        values = [(key, write, staged_value(write)) for key, write in rows]
        own = [
            (key, write, value, address.decode("utf-8", "surrogatepass"))
            for key, write, value in values
            if value is not None
            for address in own_addresses(key, value)
        ]
        found = look_up(stores.objects, {address for *_, address in own})
        for key, write, value, address in own:
            if address not in found:
                stores.staging.withdraw(token, key, write, stage_value(key, value, epoch=UNKNOWN))
                yield key
