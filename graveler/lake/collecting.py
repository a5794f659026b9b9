"""Garbage collection as the lake has it: with the runs, and with the neighbours, it must know."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graveler.gc import GarbageCollector, RunRoot
from graveler.runs import RunState

if TYPE_CHECKING:
    from graveler.lake.repository import Repository

__all__ = ["collector"]

_NOT_OVER: Final = (RunState.OPEN, RunState.PUBLISHING, RunState.PARKED)


def collector(repository: "Repository") -> GarbageCollector:
    """Return the garbage collector of a repository."""
    repository.check_kv()  # what it has forgotten would be taken for garbage
    lake = repository.lake

    def runs() -> Iterator[RunRoot]:
        for record in repository.runs.list():
            if record.state in _NOT_OVER:
                needed = (record.base, record.head, record.candidate)
                yield RunRoot(record.branch, record.into, tuple(filter(None, needed)))

    def neighbours() -> Iterator[tuple[str, str]]:
        for name in lake.repositories():
            if name != repository.name:
                yield name, lake.repository(name).storage

    return GarbageCollector(repository.stores, runs=runs, neighbours=neighbours)
