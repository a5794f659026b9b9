"""Garbage collection as the lake has it: with the runs that it must know."""

from typing import TYPE_CHECKING

from graveler.gc import GarbageCollector

if TYPE_CHECKING:
    from graveler.lake.repository import Repository

__all__ = ["collector"]


def collector(repository: "Repository") -> GarbageCollector:
    """Return the garbage collector of a repository."""
    repository.check_kv()  # what it has forgotten would be taken for garbage

    return GarbageCollector(repository.stores, runs=repository.runs.needed_commits)
