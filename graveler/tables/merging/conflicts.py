"""The results of a merge of a table, and the rule of three sides. They need no library."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class TableConflict:
    """A table that both sides changed in ways that do not go together.

    Attributes:
        table: Name of the table.
        operation: What the source did: ``append``, ``overwrite``, ``delete`` or ``revert``, or the part
            of the metadata that both sides changed, as in ``property owner`` or ``column 4``.
        partitions: The partitions in which the two meet, as in ``hour=05``. Empty: the whole table.
        source: The run, or branch, whose change is refused.
        dest: The run, or branch, whose change it meets.
        reason: The rule that refuses it.
    """

    table: str
    operation: str
    partitions: tuple[str, ...]
    source: str
    dest: str
    reason: str

    def __str__(self) -> str:
        shown = ", ".join(self.partitions[:_SHOWN])
        more = len(self.partitions) - _SHOWN
        where = f" in {shown}" + (f" and {more} more" if more > 0 else "") if shown else ""
        return (
            f"table {self.table!r}: {self.operation} by {self.source!r}{where} against {self.dest!r}: "
            f"{self.reason}; nothing has landed: do it again from the present head"
        )


@dataclass(frozen=True, slots=True)
class MergedTable:
    """The result of a merge.

    Attributes:
        metadata: The merged metadata. It is not written yet, unless it is that of one side, which can
            have dropped the table.
        files: The manifests and manifest lists that the merge has written.
        side: ``source`` or ``dest`` if the table of that side is the result as it is; or None.
    """

    metadata: "TableMetadata | None"
    files: tuple[str, ...] = ()
    side: str | None = None


class Refusal(Exception):
    """A rule that refuses a merge. The merge adds the table, and the names of sides that are missing."""

    def __init__(
        self,
        operation: str,
        reason: str,
        *,
        partitions: Sequence[str] = (),
        source: str = "",
        dest: str = "",
    ) -> None:
        super().__init__(reason)
        self.operation = operation
        self.partitions = tuple(partitions)
        self.source = source
        self.dest = dest


def pick(what: str, base: Any, source: Any, dest: Any) -> Any:
    """Return the value of the side that changed it. Both changed it in different ways: refuse."""
    if source in (base, dest):
        return dest
    if dest == base:
        return source
    raise Refusal(what, f"both sides changed it: from {base!r} to {source!r} and to {dest!r}")
