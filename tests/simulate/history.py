"""The operations of the processes and their results, in the order in which they were observable.

An operation begins with its first call and ends with its last one: both as close together
as they can be, so that as many operations as possible are ordered, and the most is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Contents = Mapping[str, str]


@dataclass(eq=False, slots=True)
class Operation:
    """One operation of one process.

    Attributes:
        bit: A power of two of its own.
        process: Who asked.
        kind: ``put``, ``delete``, ``read``, ``list``, ``commit``, ``merge``, ``reset``, …
        branch: Of which branch.
        writes: The value each path gets by it, None for a deletion.
        path: What was read.
        paths: What a commit of some paths takes.
        empty: It makes a commit whether anything changed or not.
        message: Of the commit that it makes.
        before: The bits of all that had ended before it began; None while it has not.
        done: It ended, well or not.
        result: What was returned; of a commit, the id.
        error: What was raised.
        head: Of a commit that found nothing to do: the head it saw last.
        calls: How many calls of stores it made.
        lost: How many of its compare-and-sets were refused.
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
        """It ended, and well."""
        return self.done and self.error is None

    @property
    def began(self) -> bool:
        """It made at least one call."""
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
        operations: In the order of their beginnings, as far as they have begun.
        completed: The bits of those that have ended.
    """

    def __init__(self, earlier: "History | None" = None) -> None:
        self.operations: list[Operation] = [] if earlier is None else list(earlier.operations)
        self.completed: int = 0 if earlier is None else earlier.completed

    def begin(self, operation: Operation) -> None:
        """Note that the operation makes its first call."""
        operation.before = self.completed
        self.operations.append(operation)

    def end(self, operation: Operation) -> None:
        """Note that the operation has ended."""
        operation.done = True
        self.completed |= operation.bit
