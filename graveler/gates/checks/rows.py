"""How many rows there are, and how many there usually are."""

from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import BuiltIn
from graveler.gates.checks.scope import Scoped
from graveler.gates.gate import Gate

__all__ = ["RowCount", "RowCountChange"]


@dataclass(frozen=True)
class RowCount(Scoped):
    """Rows of the files below a prefix, from Parquet footers; CSV is read."""

    kind: ClassVar[str] = "row_count"

    at_least: int | None = 1
    at_most: int | None = None
    missing: str = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.missing not in {"refuse", "pass"}:
            raise InvalidInputError(f"check {self.kind}: missing {self.missing!r}: refuse or pass")

    def __call__(self, candidate: Candidate) -> str | None:
        """Return why not, or None."""
        changes = self.scope == "changes"
        found = candidate.added(self.prefix) if changes else candidate.stats(self.prefix)
        candidate.report(files=found.files, rows=found.rows)
        if changes and not found.files and (self.missing == "pass" or candidate.restores):
            return None
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
class RowCountChange(BuiltIn):
    """Rows that a run brings, against the median of what earlier ones brought."""

    kind: ClassVar[str] = "row_count_change"

    prefix: str = ""
    less: float | None = 0.5
    more: float | None = None
    history: int = 20
    enough: int = 3

    def __post_init__(self) -> None:
        if self.history < self.enough or self.enough < 1:
            raise InvalidInputError(
                f"check {self.kind}: history {self.history} and enough {self.enough}: compare "
                "with at least one, and with no more than are looked up"
            )

    def gate(self) -> Gate:
        """Return the gate."""
        where = f" {self.prefix}" if self.prefix else ""
        return Gate(f"{self.kind}{where}", self, prefix=self.prefix, reads=("changes", "history"))

    def __call__(self, candidate: Candidate) -> str | None:
        """Return why not, or None."""
        found = candidate.added(self.prefix)
        if not found.files:
            candidate.report(rows=0)
            return None  # that a run brings nothing is row_count's to say
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
