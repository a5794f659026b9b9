"""A check of references: every value of a column exists in another column."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.scope import Scoped, files_of
from graveler.gates.checks.tables import table
from graveler.gates.footers import Files
from graveler.gates.gate import Gate
from graveler.model import Entry


@dataclass(frozen=True)
class RefersTo(Scoped):
    """Every value of a column exists in a column below another prefix; both are read."""

    kind: ClassVar[str] = "refers_to"

    column: str = ""
    other: str = ""
    other_column: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.column and self.other):
            raise InvalidInputError(
                f"check {self.kind}: name a column, and the other prefix that it refers to"
            )

    def gate(self) -> Gate:
        """Return the gate, which reads both prefixes."""
        return Gate(
            f"{self.kind} {self.prefix} {self.other}",
            self,
            prefix=self.prefix,
            also=(self.other,),
        )

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        there = self.other_column or self.column
        mine = _values(candidate, entries, self.column)
        others = files_of(candidate, self.other, "all") if mine else ()
        lost = mine - _values(candidate, others, there)
        candidate.report(values=len(mine), lost=len(lost))
        if not lost:
            return None
        shown = ", ".join(repr(value) for value in sorted(lost, key=repr)[:5])
        return (
            f"{len(lost)} values of {self.column!r} below {self.prefix!r} are not in {there!r} "
            f"below {self.other!r}: {shown}"
        )


def _values(files: Files, entries: Iterable[Entry], column: str) -> set[Any]:
    found: set[Any] = set()
    for entry in entries:
        values = table(files, entry, [column]).column(column)
        found.update(values.drop_null().unique().to_pylist())
    return found
