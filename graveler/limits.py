"""How much of everything there may be; writers refuse more, and readers take as much."""

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["LONGEST_DURATION", "TIMES"]

LONGEST_DURATION: Final = timedelta(days=36_500)
"""Of leases, times to live, windows and grace; added to any time of `TIMES` it gives a time."""

TIMES: Final = (datetime(1, 1, 2, tzinfo=UTC), datetime(9800, 1, 1, tzinfo=UTC))
"""The first and the last time that records hold."""
