"""The mutants of the tables: a broken rule, the edit that breaks it, and the tests that must find it.

A paragraph of a table has a module below ``graveler`` and test files below ``tests``. Each pair of lines below
is a mutant: its name, and ``function: old => new``, in which ``¶`` is a line feed. ``@ tests`` at the end of an
edit names other tests than those of the paragraph.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.simulate.mutants.patch import Mutant, one_edit

TABLES = ("keep", "datamanager", "iam", "collections", "server")


def _read(text: str) -> Iterator[Mutant]:
    for paragraph in text.strip().split("\n\n"):
        head, *lines = paragraph.split("\n")
        module, *common = head.split()
        for name, line in zip(lines[::2], lines[1::2], strict=True):
            edit, _, own = line.partition(" @ ")
            where, _, change = edit.strip().partition(": ")
            old, new = change.replace("¶", "\n").split(" => ")
            yield one_edit(name, f"{module}:{where}", old, new, *(own.split() or common))


BY_PACKAGE = {
    name: tuple(_read((Path(__file__).parent / f"{name}.txt").read_text())) for name in TABLES
}
MUTANTS = {mutant.name: mutant for mutants in BY_PACKAGE.values() for mutant in mutants}
