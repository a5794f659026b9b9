"""What must not go: everything that refs, staged writes and runs name, looked at until it rests.

Branches move while they are looked at: what one of them named may be on another one, at
which the look was a moment ago. So a branch is looked at again after its staged writes were
read, and all of it is looked at again until a look finds nothing new.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from graveler.errors import ThrottledError
from graveler.gc.reachability.scratch import Scratch
from graveler.gc.reachability.trees import keys_of_entry
from graveler.model import BranchRecord
from graveler.reads import Stores
from graveler.records import staged_value
from graveler.retries import backoff
from graveler.staging import HOLD

_ATTEMPTS: Final = 1_000


RunRoots = Callable[[], Iterable[str]]
"""Yields the commits that runs which are not over need: bases, heads, what is about to land."""


class Roots:
    """What was found so far.

    Attributes:
        heads: The heads of each branch: all that were seen.
        tags: The commits that tags name.
        runs: The commits that runs need.
        tokens: Staging tokens that branches name, or named during the look.
    """

    def __init__(self, stores: Stores, scratch: Scratch, runs: RunRoots) -> None:
        self._stores = stores
        self._scratch = scratch
        self._find_runs = runs
        self._read: set[str] = set()
        self.heads: dict[str, set[str]] = {}
        self.tags: set[str] = set()
        self.runs: set[str] = set()
        self.tokens: set[str] = set()

    def look(self) -> bool:
        """Read everything once; return whether there was something new."""
        before = self._size()
        for name in list(self._stores.refs.branches.names()):
            self._settle(name)
        self.tags.update(commit for _, commit in self._stores.refs.tags.list())
        self.runs.update(self._find_runs())
        return self._size() != before

    def look_at_holds(self, tokens: Iterable[str]) -> None:
        """Note what commits that are being made borrow, before the branches are looked at.

        A hold that is gone when it is read was given up after its commit had landed.
        """
        for token in tokens:
            if token.startswith(HOLD):
                self._scratch.add_addresses(self._staged(token))

    def _size(self) -> tuple[int, ...]:
        return (
            sum(map(len, self.heads.values())),
            len(self.tags),
            len(self.runs),
            len(self.tokens),
            len(self._read),
        )

    def _settle(self, name: str) -> None:
        record = self._stores.refs.branches.find(name)
        for attempt in range(_ATTEMPTS):
            if record is None:
                return  # deleted; the next round sees where its head went
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
        # each token by itself: a commit may take an older write that a newer one hides
        for key, write in self._stores.staging.scan([token]):
            value = staged_value(write)
            if value is not None:
                yield from keys_of_entry(key, value)


def _tokens(record: BranchRecord) -> tuple[str, ...]:
    return (record.staging_token, *record.sealed_tokens)
