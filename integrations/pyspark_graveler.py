"""Spark finds the data source ``format("graveler")`` by the name of this module.

Spark imports every module with such a name for the first data source of a session, so this module is
small.
"""

from typing import TYPE_CHECKING

from graveler.spark.source import Source

if TYPE_CHECKING:
    from graveler.lake import Lake


class DefaultSource(Source):
    """The data source, of lakes that `graveler.open` opens."""

    @staticmethod
    def open_lake(location: str) -> "Lake":
        """Return the lake at a location."""
        import graveler

        return graveler.open(location)
