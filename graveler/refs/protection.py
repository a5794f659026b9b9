"""Branch protection: branches that match a pattern take merges only.

One record, ``settings/protection``: a JSON list of shell patterns (``main``, ``release-*``).
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final

from graveler.clock import IdSource
from graveler.errors import (
    CorruptionError,
    OutcomeUnknownError,
    PreconditionFailedError,
    ProtectedBranchError,
    ThrottledError,
)
from graveler.kv.store import ABSENT, KVStore, Stored
from graveler.records import decode_json, encode_json

__all__ = ["Protection"]

_KEY: Final = b"settings/protection"
_ATTEMPTS: Final = 20


class Protection:
    """The protection rules of one repository."""

    def __init__(self, kv: KVStore, partition: str, ids: IdSource) -> None:
        self._kv = kv
        self._partition = partition
        self._ids = ids

    def patterns(self) -> list[str]:
        """Return the patterns, sorted."""
        return self._patterns(self._kv.get(self._partition, _KEY))

    def add(self, pattern: str) -> None:
        """Protect the branches that match `pattern`."""
        self._change(lambda patterns: patterns | {pattern})

    def remove(self, pattern: str) -> None:
        """Take a pattern away; no error where it is not there."""
        self._change(lambda patterns: patterns - {pattern})

    def check(self, branch: str) -> None:
        """Raise ProtectedBranchError if `branch` takes merges only."""
        for pattern in self.patterns():
            if fnmatchcase(branch, pattern):
                raise ProtectedBranchError(
                    f"branch {branch!r} is protected (pattern {pattern!r}): "
                    "write to another branch and merge it"
                )

    def _change(self, change: Callable[[set[str]], set[str]]) -> None:
        for _ in range(_ATTEMPTS):
            stored = self._kv.get(self._partition, _KEY)
            patterns = sorted(change(set(self._patterns(stored))))
            value = encode_json({"patterns": patterns, "nonce": self._ids.unique()})
            predicate = ABSENT if stored is None else stored.predicate
            try:
                self._kv.set_if(self._partition, _KEY, value, predicate)
            except (PreconditionFailedError, OutcomeUnknownError):
                continue  # adding or removing a pattern twice is harmless
            return
        raise ThrottledError(f"protection rules: lost {_ATTEMPTS} races; try again")

    @staticmethod
    def _patterns(stored: Stored | None) -> list[str]:
        if stored is None:
            return []
        try:
            return list(decode_json(stored.value, "protection rules")["patterns"])
        except (KeyError, TypeError) as error:
            raise CorruptionError(
                f"protection rules cannot be read: {stored.value[:80]!r}"
            ) from error
