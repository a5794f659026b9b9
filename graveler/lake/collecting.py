"""Garbage collection as the lake has it: with the runs, and with the neighbours, it must know."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graveler.gc import GarbageCollector

if TYPE_CHECKING:
    from graveler.lake.repository import Repository

__all__ = ["collector"]


def collector(repository: "Repository") -> GarbageCollector:
    """Return the garbage collector of a repository."""
    repository.check_kv()  # what it has forgotten would be taken for garbage
    lake = repository.lake

    def neighbours() -> Iterator[tuple[str, str]]:
        for name in lake.repositories():
            if name != repository.name:
                yield name, lake.repository(name).storage

    return GarbageCollector(
        repository.stores, runs=repository.runs.needed_commits, neighbours=neighbours
    )
