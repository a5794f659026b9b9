"""How often to ask a remote store again, and how long to wait between."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from graveler.clock import Clock, IdSource
from graveler.errors import BackendUnavailableError, ThrottledError

__all__ = ["Retrier"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retrier:
    """Repeats what may be repeated, a bounded number of times.

    The wait before try n is drawn evenly from 0 to `first_wait_s` · 2ⁿ, at most
    `longest_wait_s`: clients that failed together do not come back together.
    """

    clock: Clock
    ids: IdSource
    tries: int = 6
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0

    def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns; raise what it raises once the tries are used up."""
        for attempt in range(self.tries - 1):
            try:
                return call()
            except (BackendUnavailableError, ThrottledError):
                longest = min(self.longest_wait_s, self.first_wait_s * 2**attempt)
                self.clock.sleep(self.ids.jitter() * longest)
        return call()
