"""Checks on every write of the shared stores."""

from functools import lru_cache

from graveler.refs.branches import decode_branch
from tests.simulate.scenarios.shared import Shared


class Watch:
    """Sees every write of the shared stores, and records the forbidden ones.

    Args:
        shared: The stores to watch.
    """

    def __init__(self, shared: Shared) -> None:
        self.broken: list[str] = []
        self._given_up: set[str] = set()
        shared.watch = self.see

    def see(self, partition: str, key: bytes, before: bytes | None, after: bytes | None) -> None:
        """Check a write before it is made."""
        if key.startswith(b"branch/"):
            named = _tokens(after)
            self._given_up |= _tokens(before) - named
            self.broken += [
                f"{key.decode()} names the token {token} again, which it had given up"
                for token in named & self._given_up
            ]
        elif before is None or not partition.startswith("refs:"):
            return
        elif key.startswith(b"commit/"):
            self.broken.append(f"{key.decode()} was written again, or removed")
        elif key.startswith(b"tag/") and after is not None:
            self.broken.append(f"{key.decode()} was moved")


@lru_cache(maxsize=10_000)
def _tokens(raw: bytes | None) -> frozenset[str]:
    if raw is None:
        return frozenset()
    record = decode_branch(raw)
    return frozenset((record.staging_token, *record.sealed_tokens))
