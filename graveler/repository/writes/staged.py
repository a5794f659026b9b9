"""Staged writes: write under the live token, read the branch again, repeat if a commit began.

A write is acknowledged only if the branch has the same live token after it. Then the next commit
contains it. Otherwise the write is repeated under the new token. Both rows have the same identity,
so the repetition changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from graveler.base.background import batches
from graveler.base.names import check_pairs, check_path, path_key
from graveler.base.read_only import refuse_writes
from graveler.base.retries import backoff
from graveler.config import default_committer
from graveler.errors import RefNotFoundError, ThrottledError
from graveler.model import Entry, seal_of
from graveler.objects.address import DATA, LONGEST_SUFFIX
from graveler.objects.store import Body
from graveler.reads.stores import Stores
from graveler.refs.branches import check_fence, owned
from graveler.refs.refs import Look
from graveler.repository.writes import unfinished
from graveler.repository.writes.borrowed import Row, confirm, holding, rows_of
from graveler.repository.writes.links import linked
from graveler.staging.area import Staged
from graveler.values import TOMBSTONE, signature, stage_entry

_ATTEMPTS = 100
CHUNK = 20_000
"""The number of rows that are staged in one round trip."""
_LOOK_UP = 100_000
_FRESH = timedelta(seconds=1)


class StagedWrites:
    """The writes that one operation stages on a branch.

    An operation that began on a branch stages nothing on a later one of the same name.

    Args:
        fence: The fence of the run that owns the branch, or "" for a user's branch.
        author: Who stages: the key of a run. "" stands for the user of the process.
    """

    def __init__(self, stores: Stores, name: str, fence: str, author: str = "") -> None:
        self._stores = stores
        self.name = name
        self.fence = fence
        self._author = author
        self._seen: tuple[datetime, Look] | None = None
        self._born = ""

    def check(self, *, borrows: bool = False) -> Look:
        """Raise an error, before bytes are stored, if the branch accepts no writes."""
        refuse_writes(f"branch {self.name!r}")
        look = self._look(borrows=borrows)
        self._check_rules(look)
        self._seen = (self._stores.clock.now(), look)
        return look

    def upload(self, path: str, body: Body, content_type: str, metadata: dict[str, str]) -> Entry:
        """Store the bytes at a new address and return their entry, which is not staged."""
        check_path(path)
        check_pairs(f"entry {path!r}", metadata)
        self.check()
        return stored(self._stores, path, body, content_type, metadata)

    def stage(
        self,
        entries: Iterable[Entry],
        *,
        replaces: bool = False,
        after: "StagedWrites | None" = None,
    ) -> int:
        """Stage entries of files that were just written below `new_address`. Return their number.

        Args:
            after: The writes that uploaded the files in this operation. Its look at the branch
                is reused.
        """
        if after is not None:
            self._seen, self._born = after._seen, after._born
        keys = ((check_path(entry.path), entry) for entry in entries)
        return self._stage_all(
            (key, stage_entry(key, entry, replaces=replaces)) for key, entry in keys
        )

    def link(self, entry: Entry, *, sized: bool) -> Entry:
        """Stage the entry of a file that is already in a store, and return its stored form."""
        return self._link([entry], self.check(borrows=True), sized=sized)[0]

    def link_many(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that are already in a store. Return their number."""
        count, look = 0, self.check(borrows=True)
        for group in batches(entries, _LOOK_UP):
            count += len(self._link(group, look if not count else self._look(borrows=True)))
        return count

    def _link(self, entries: Iterable[Entry], look: Look, *, sized: bool = True) -> list[Entry]:
        stored, epoch = linked(self._stores, entries, sized=sized, epoch=look.epoch)
        for rows in batches(rows_of(stored, epoch), CHUNK):
            now = self._stage([(row.key, row.value) for row in rows], borrows=True)
            confirm(self._stores, [now.record.staging_token], rows, now=now.epoch)
        return stored

    def delete(self, paths: Iterable[str]) -> int:
        """Stage the deletion of paths. A missing path is not an error. Return their number."""
        return self._stage_all((path_key(path), TOMBSTONE) for path in paths)

    def _stage_all(self, items: Iterable[tuple[bytes, bytes]]) -> int:
        count = 0
        for chunk in batches(items, CHUNK):
            self._stage(chunk)
            count += len(chunk)
        return count

    def signature(self) -> bytes:
        """Return the bytes that tell who stages now."""
        return signature(self._author or default_committer(), self._stores.clock.now())

    def stage_rows(self, rows: Sequence[Row]) -> str:
        """Stage rows together and return their token. Borrowed bytes are not confirmed."""
        return self._stage([(row.key, row.value) for row in rows]).record.staging_token

    def _stage(self, items: Sequence[tuple[bytes, bytes]], *, borrows: bool = False) -> Look:
        """Stage writes (key, staged entry or tombstone) together.

        Returns:
            The second look at the branch, whose live token has the writes.
        """
        stores = self._stores
        look = self._fresh() or self._look()
        signed = self.signature()
        for attempt in range(_ATTEMPTS):
            self._check_rules(look)
            token, head = look.record.staging_token, look.record.commit_id
            if len(items) == 1:
                stores.staging.set(token, items[0][0], signed + items[0][1])
            else:
                stores.staging.set_many(token, [(key, signed + write) for key, write in items])
            look = self._look(borrows=borrows)
            live = look.record.staging_token == token
            stores.staging.note(self.name, Staged(token, head, live))
            if live:
                self._seen = (stores.clock.now(), look)  # valid for the next chunk
                unfinished.settle(stores, self.name, self.fence, (key for key, _ in items))
                return look
            backoff(stores.clock, stores.ids, attempt)
        raise ThrottledError(
            f"branch {self.name!r} began a commit during each of {_ATTEMPTS} tries to write; "
            "try again"
        )

    def _fresh(self) -> Look | None:
        """Return the first look of this operation once, if it is at most a second old.

        The operation began before the look, so the writes may count as staged at its time.
        """
        seen, self._seen = self._seen, None
        if seen is None:
            return None
        age = self._stores.clock.now() - seen[0]
        return seen[1] if abs(age) <= _FRESH else None

    def _look(self, *, borrows: bool = False) -> Look:
        with owned(self.name, self.fence):
            look = self._stores.refs.look(self.name, rules=not self.fence, epoch=borrows)
        check_fence(look.record, self.fence)
        if self._born not in {"", look.record.born}:
            raise RefNotFoundError(
                f"branch {self.name!r} was deleted and made again during the write: repeat it, if it "
                "is also for the new branch"
            )
        self._born = look.record.born
        return look

    def _check_rules(self, look: Look) -> None:
        if look.rules is not None:
            look.rules.check(self.name, "write")

    def check_protection(self) -> None:
        """Raise ProtectedBranchError if the branch accepts no writes."""
        self._check_rules(self._look())


def stored(
    stores: Stores, path: str, body: Body, content_type: str, metadata: dict[str, str]
) -> Entry:
    """Store the bytes at a new address and return their entry. The branch is not read."""
    address = new_address(stores) + _suffix(path)
    since = stores.clock.now()
    info = stores.objects.put(address, body)
    stores.store_clock.note(info.mtime, since)
    made = Entry(
        path=path,
        address=address,
        size=info.size,
        checksum=info.checksum,
        content_type=content_type,
        mtime=stores.clock.now(),
        metadata=metadata,
        computed=True,
    )
    return replace(made, seal=seal_of(made))


def new_address(stores: Stores) -> str:
    """Return a new key prefix in the repository's storage: ``data/<storage id>/<unique>``."""
    return f"{DATA}{stores.storage_id}/{stores.ids.unique()}"


def _suffix(path: str) -> str:
    """Return the extensions of a path, by which other programs recognize the format."""
    suffix = "".join(PurePosixPath(path).suffixes[-2:]).lower()
    plain = suffix.replace(".", "")
    return suffix if plain.isascii() and plain.isalnum() and len(suffix) <= LONGEST_SUFFIX else ""


@contextmanager
def held_forms(
    stores: Stores, entries: Iterable[Entry], deleted: Iterable[str]
) -> Iterator[dict[bytes, bytes]]:
    """Yield the staged form of each change by its key, for a block that commits them."""
    tombstones = {path_key(path): TOMBSTONE for path in deleted}
    rows: list[Row] = []
    for group in batches(entries, _LOOK_UP):
        rows += rows_of(*linked(stores, group))
    with holding(stores) as hold:
        hold.keep(rows)
        yield {row.key: row.value for row in rows} | tombstones
