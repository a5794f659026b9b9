"""Whether an hour of an ingestion branch is published."""

from typing import Any

from graveler.ingest import HourState
from graveler.lake import Repository

__all__ = ["published_hour"]

_OVER = (HourState.PUBLISHED, HourState.EMPTY)


def published_hour(
    repository: Repository, branch: str, into: str, hour: str
) -> dict[str, Any] | None:
    """Return the hour and the commit that published it, None where it is not published yet.

    An hour in which nothing came is published by no commit.
    """
    found = repository.ingestion(branch, into=into).hour(hour)
    if found is None or found.state not in _OVER:
        return None
    return {
        "repository": repository.name,
        "ref": into,
        "hour": found.hour,
        "commit": found.published and found.published.id,
        "late": list(found.late),
    }
