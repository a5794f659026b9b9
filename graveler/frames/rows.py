"""The rows of a frame that belong to a partition."""

from dataclasses import dataclass
from datetime import UTC, datetime

from graveler.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The rows of a partition: those whose column holds its key, or a time in its window."""

    key: str
    start: datetime | None = None
    end: datetime | None = None
    zone: str = "UTC"

    def window(self, column: str) -> tuple[datetime, datetime]:
        """Return the window of time in UTC, or raise InvalidInputError if it is not a time."""
        if self.start is None or self.end is None:
            raise InvalidInputError(
                f"column {column!r} holds times, and partition {self.key!r} is not a time"
            )
        return self.start.astimezone(UTC), self.end.astimezone(UTC)


def refuse_other_rows(column: str, count: int | None = None) -> None:
    """Raise InvalidInputError: rows belong to none of the run's partitions."""
    rows = "rows" if count is None else f"{count} rows"
    raise InvalidInputError(
        f"{rows} belong to none of the partitions of this run by their column {column!r}: "
        "filter them out, or run their partitions too"
    )
