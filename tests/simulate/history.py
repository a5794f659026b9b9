"""The operations of the processes and their results, in the order in which they were observable.

An operation begins with its first call and ends with its last call. This is the shortest
interval that the definition allows. As many pairs of operations as possible are therefore
ordered, and the checkers are as strict as possible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Contents = Mapping[str, str]


@dataclass(eq=False, slots=True)
class Operation:
    """One operation of one process.

    Attributes:
        bit: A power of two that identifies the operation.
        process: The process that ran it.
        kind: ``put``, ``delete``, ``read``, ``list``, ``commit``, ``merge``, ``reset``, …
        branch: The branch that it works on.
        writes: The value that it gives each path, None for a deletion.
        path: The path that it reads.
        paths: The paths that a commit of some paths takes.
        empty: Whether it makes a commit even if nothing changed.
        message: The message of the commit that it makes.
        before: The bits of the operations that had ended before it began; None before it begins.
        done: Whether it ended, with or without an error.
        result: What it returned; the id for a commit.
        error: The error that it raised.
        head: The head that it saw last, for a commit that found nothing to do.
        calls: How many calls of stores it made.
        lost: How many of its compare-and-sets failed.
    """

    bit: int
    process: str
    kind: str
    branch: str
    writes: dict[str, str | None] = field(default_factory=dict)
    path: str = ""
    paths: tuple[str, ...] = ()
    empty: bool = False
    message: str = ""
    before: int | None = None
    done: bool = False
    result: Any = None
    error: Exception | None = None
    head: str = ""
    calls: int = 0
    lost: int = 0

    @property
    def ok(self) -> bool:
        """Whether it ended without an error."""
        return self.done and self.error is None

    @property
    def began(self) -> bool:
        """Whether it made at least one call."""
        return self.before is not None

    def __str__(self) -> str:
        what = " ".join(f"{path}={value}" for path, value in self.writes.items()) or self.path
        end = f"raised {type(self.error).__name__}" if self.error else f"gave {self.result!r}"
        return f"{self.process}: {self.kind} {self.branch} {what} {end if self.done else 'never ended'}"


def precedes(one: Operation, other: Operation) -> bool:
    """Return whether `one` had ended before `other` began."""
    return one.done and other.before is not None and bool(other.before & one.bit)


class History:
    """The operations of one schedule.

    Attributes:
        operations: The operations that have begun, in the order of their beginnings.
        completed: The bits of the operations that have ended.
    """

    def __init__(self, earlier: "History | None" = None) -> None:
        self.operations: list[Operation] = [] if earlier is None else list(earlier.operations)
        self.completed: int = 0 if earlier is None else earlier.completed

    def begin(self, operation: Operation) -> None:
        """Record that the operation makes its first call."""
        operation.before = self.completed
        self.operations.append(operation)

    def end(self, operation: Operation) -> None:
        """Record that the operation has ended."""
        operation.done = True
        self.completed |= operation.bit
