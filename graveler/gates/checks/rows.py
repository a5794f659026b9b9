"""Checks of the number of rows: by bounds, and by what earlier runs brought."""

from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Final

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import check_bounds, check_share
from graveler.gates.checks.scope import Scoped
from graveler.gates.gate import Gate
from graveler.model import Entry

_MOST_MORE: Final = 10
"""Largest share: a larger number was meant as a percentage."""


@dataclass(frozen=True)
class RowCount(Scoped):
    """The number of rows below a prefix, from Parquet footers and from CSV files."""

    kind: ClassVar[str] = "row_count"

    at_least: int | None = 1
    at_most: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds(self.kind, self.at_least, self.at_most, counts=True)

    def nothing(self, candidate: Candidate) -> str | None:
        """Return why the candidate is refused if the run brings no file, or None."""
        if self.missing == "allow" or candidate.restores:
            return None
        return self.judge(candidate, []) or super().nothing(candidate)

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with files, or None."""
        changes = self.scope == "changes"
        found = candidate.added(self.prefix) if changes else candidate.stats(self.prefix)
        candidate.report(files=found.files, rows=found.rows)
        if found.rows is None:
            return (
                f"rows below {self.prefix!r} cannot be counted: a file is neither Parquet nor CSV "
                "by its name"
            )
        what = f"{found.rows} rows in {found.files} files below {self.prefix!r}"
        if self.at_least is not None and found.rows < self.at_least:
            return f"{what}: expected at least {self.at_least}"
        if self.at_most is not None and found.rows > self.at_most:
            return f"{what}: expected at most {self.at_most}"
        return None


@dataclass(frozen=True)
class RowCountChange(Scoped):
    """The rows that a run brings, compared with the median of earlier runs."""

    kind: ClassVar[str] = "row_count_change"

    less: float | None = 0.5
    more: float | None = None
    history: int = 20
    enough: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(self.kind, "less", self.less, 1)
        check_share(self.kind, "more", self.more, _MOST_MORE)
        if self.history < self.enough or self.enough < 1:
            raise InvalidInputError(
                f"check {self.kind}: history {self.history} and enough {self.enough}: compare "
                "with at least one, and with no more than are looked up"
            )

    def gate(self) -> Gate:
        """Return the gate."""
        where = f" {self.prefix}" if self.prefix else ""
        return Gate(f"{self.kind}{where}", self, prefix=self.prefix, reads=("changes", "history"))

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        found = candidate.added(self.prefix)
        if found.rows is None:
            return f"rows below {self.prefix!r} cannot be counted: neither Parquet nor CSV"
        usual = [
            one.stats.rows
            for one in candidate.history(self.prefix, int(self.history))
            if one.stats.rows is not None
        ]
        candidate.report(rows=found.rows, compared=len(usual))
        if len(usual) < self.enough:
            return None
        middle = median(usual)
        candidate.report(usual=middle)
        change = f"{found.rows} rows below {self.prefix!r}, where {len(usual)} earlier commits"
        if self.less is not None and found.rows < middle * (1 - self.less):
            return f"{change} brought {middle:g} (median): more than {self.less:.0%} less"
        if self.more is not None and found.rows > middle * (1 + self.more):
            return f"{change} brought {middle:g} (median): more than {self.more:.0%} more"
        return None
