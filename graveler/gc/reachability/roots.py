"""Roots: everything that refs, staged writes and runs name, read until it does not change.

Branches move while they are read: a commit may move to a branch that was read before. Each branch is
therefore read again after its staged writes, and all branches are read again until a round finds
nothing new.
"""

from collections.abc import Callable, Iterable, Iterator

from graveler.base.retries import backoff
from graveler.committed.references import own_addresses
from graveler.errors import ThrottledError
from graveler.gc.reachability.scratch import Scratch
from graveler.model import BranchRecord
from graveler.reads.stores import Stores
from graveler.staging.area import HOLD
from graveler.values import staged_value

_ATTEMPTS = 1_000


RunRoots = Callable[[], Iterable[str]]
"""Yields the commits that unfinished runs and waiting ingestion need, whatever the rules say."""


class Roots:
    """The roots read so far."""

    def __init__(self, stores: Stores, scratch: Scratch, runs: RunRoots) -> None:
        self._stores = stores
        self._scratch = scratch
        self._find_runs = runs
        self._read: set[str] = set()
        self.heads: dict[str, set[str]] = {}
        self.tags: dict[str, set[str]] = {}
        self.runs: set[str] = set()
        self.tokens: set[str] = set()

    def look(self) -> bool:
        """Read all roots once; return whether any is new."""
        before = self._size()
        for name in list(self._stores.refs.branches.names()):
            self._settle(name)
        for name, commit in self._stores.refs.tags.list():
            self.tags.setdefault(name, set()).add(commit)
        self.runs.update(self._find_runs())
        return self._size() != before

    def look_at_holds(self, tokens: Iterable[str]) -> None:
        """Note what unfinished commits borrow; called before the branches are read.

        A hold that no longer exists was released after its commit had landed.
        """
        for token in tokens:
            if token.startswith(HOLD):
                self._scratch.add_addresses(self._staged(token))

    def _size(self) -> tuple[int, ...]:
        return (
            sum(map(len, self.heads.values())),
            sum(map(len, self.tags.values())),
            len(self.runs),
            len(self.tokens),
            len(self._read),
        )

    def _settle(self, name: str) -> None:
        record = self._stores.refs.branches.find(name)
        for attempt in range(_ATTEMPTS):
            if record is None:
                return  # the branch was deleted; the next round finds where its head is now
            self.heads.setdefault(name, set()).add(record.commit_id)
            self.tokens.update(_tokens(record))
            if record.nonce in self._read:
                return
            for token in _tokens(record):
                self._scratch.add_addresses(self._staged(token))
            now = self._stores.refs.branches.find(name)
            if now is not None and now.nonce == record.nonce:
                self._read.add(record.nonce)
                return
            record = now
            backoff(self._stores.clock, self._stores.ids, attempt)
        raise ThrottledError(f"branch {name!r} moved during {_ATTEMPTS} looks at it; try again")

    def _staged(self, token: str) -> Iterator[bytes]:
        # each token is read by itself: a commit may use an older write that a newer one hides
        for key, write in self._stores.staging.scan([token]):
            value = staged_value(write)
            if value is not None:
                yield from own_addresses(key, value)


def _tokens(record: BranchRecord) -> tuple[str, ...]:
    return (record.staging_token, *record.sealed_tokens)
