"""Commits whose trees garbage collection has condemned or removed: key ``commit/<64 hex>``.

The records of commits are kept forever; their trees in the object store may be deleted. In the
partition ``gc:<uid>`` a commit is *condemned* from the mark that found it unreachable until
the sweep after the undelete window, and *expired* from then on. No new ref may name a condemned
commit. A writer that looked it up before the mark and names it later removes the record of the
condemnation, and the sweep keeps the tree.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from graveler.errors import ExpiredError, ThrottledError
from graveler.fields import Fields, from_unix_us
from graveler.identity import unix_us
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.records import FORMAT, decode_json, encode_json, read_key

_PREFIX: Final = b"commit/"
_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class Expired:
    """What garbage collection plans to do, or has done, with the tree of a commit.

    Attributes:
        mark: Id of the mark that condemned it.
        at: When it was condemned, or expired; microseconds since 1970, UTC.
        gone: Whether the tree is gone; otherwise it is kept until the undelete window ends.
    """

    mark: str
    at: int
    gone: bool

    @property
    def when(self) -> datetime:
        """When it was condemned, or expired."""
        return from_unix_us(self.at)


class ExpiredCommits(RecordStore[str, Expired]):
    """The condemned and the expired commits of one repository.

    Attributes:
        has_tree: Whether the storage has the tree of a commit.

    Args:
        kv: Where the records are.
        uid: The repository.
        has_tree: Whether the storage has the tree of a commit; called for condemned ones only. A
            key-value store that was restored from a backup may not know of a sweep.
    """

    def __init__(
        self, kv: KVStore, uid: str, *, has_tree: Callable[[str], bool] | None = None
    ) -> None:
        super().__init__(kv, f"gc:{uid}", key=_key, encode=_encode, decode=_decode)
        self.has_tree = has_tree or _always

    def list(self) -> Iterator[tuple[str, Expired]]:
        """Yield the commits that are condemned or expired, by id."""
        for name, record in self.scan(_PREFIX):
            yield read_key(name, "expired commit"), record

    def check_readable(self, commit_id: str) -> None:
        """Raise ExpiredError if the commit's tree is gone."""
        found = self.find(commit_id)
        if found is not None and (found[0].gone or not self.has_tree(commit_id)):
            raise _gone(commit_id, found[0])

    def check_nameable(self, commit_id: str) -> None:
        """Raise ExpiredError if no new ref may name the commit: its tree is deleted or condemned."""
        found = self.find(commit_id)
        if found is None:
            return
        if found[0].gone or not self.has_tree(commit_id):
            raise _gone(commit_id, found[0])
        raise ExpiredError(
            f"commit {commit_id[:12]} was condemned by garbage collection on "
            f"{found[0].when:%Y-%m-%d %H:%M} UTC, because nothing named it: `graveler gc undelete "
            f"{found[0].mark}` takes that back, and it can be named again"
        )

    def keep(self, commit_id: str) -> None:
        """Remove the condemnation of a commit, now that a ref names it.

        Raises:
            ExpiredError: It is too late, the tree is gone.
        """
        for _ in range(_ATTEMPTS):
            found = self.find(commit_id)
            if found is None:
                return
            if found[0].gone:
                raise _gone(commit_id, found[0])
            if self.remove(commit_id, found[1]):
                return
        raise ThrottledError(f"commit {commit_id[:12]}: lost {_ATTEMPTS} races; try again")


def _always(_commit_id: str) -> bool:
    return True


def _key(commit_id: str) -> bytes:
    return _PREFIX + commit_id.encode()


def _gone(commit_id: str, record: Expired) -> ExpiredError:
    return ExpiredError(
        f"commit {commit_id[:12]} expired: garbage collection {record.mark} "
        f"{'removed' if record.gone else 'condemned, and later removed,'} its tree on "
        f"{record.when:%Y-%m-%d %H:%M} UTC, because no ref and no retention rule kept it; the commit "
        "itself stays in the log: choose one that `graveler log` does not show as expired"
    )


def _encode(record: Expired) -> bytes:
    return encode_json({"format": FORMAT, **asdict(record)})


def _decode(raw: bytes) -> Expired:
    what = "record of an expired commit"
    return read_expired(Fields(decode_json(raw, what), what), gone=None)


def read_expired(fields: Fields, *, gone: bool | None) -> Expired:
    """Return a stored record, or raise CorruptionError; `gone` where it is not in the record."""
    at = unix_us(fields.moment("at"))
    return Expired(fields.text("mark"), at, fields.flag("gone") if gone is None else gone)
