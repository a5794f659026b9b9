"""Faults at one chosen call of the process that a test is."""

from collections.abc import Iterator
from contextlib import contextmanager

from graveler.testing.faults import Action, Moment, lost_reply, unavailable
from graveler.testing.watching import Call, Process

__all__ = ["Faults"]


class Faults:
    """Makes one call to the stores go wrong.

    Calls are counted from 1, from the beginning of the block; `of` counts only those of one
    store (``kv``, ``objects``) or one method (``set_if``, ``put``, …). A block that never comes
    to the call fails, for it tests nothing.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def calls(self) -> list[Call]:
        """Every call made so far."""
        return self._process.calls

    @contextmanager
    def at(
        self, number: int, action: Action, *, moment: Moment = "before", of: str = ""
    ) -> Iterator[None]:
        """Do `action`, called with the name of the call, at the call `number` of the block."""
        self._process.strike(number, action, moment=moment, of=of)
        yield
        if self._process.struck is None:
            raise AssertionError(f"the block makes less than {number} calls {of}".rstrip())

    @contextmanager
    def unavailable(self, number: int = 1, *, of: str = "") -> Iterator[None]:
        """Have a store not answer: BackendUnavailableError, and the call had no effect."""
        with self.at(number, unavailable, of=of):
            yield

    @contextmanager
    def lost_reply(self, number: int = 1, *, of: str = "") -> Iterator[None]:
        """Have a call take effect and its answer get lost."""
        with self.at(number, lost_reply, moment="after", of=of):
            yield

    @contextmanager
    def dies(self, number: int = 1, *, moment: Moment = "before", of: str = "") -> Iterator[None]:
        """End the process there: the block ends, and nothing that it still runs has an effect.

        Go on as another process: ``graveler_reopen()``.
        """
        with self.at(number, self._process.die, moment=moment, of=of):
            try:
                yield
            except BaseException:
                if not self._process.dead:
                    raise
