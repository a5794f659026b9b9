"""How a long operation reports its progress."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and how many are known so far."""


def no_progress(_what: str, _done: int, _known: int) -> None:
    """Report nothing: what a caller gets who passes None."""
