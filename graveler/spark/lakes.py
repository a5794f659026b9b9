"""Lakes in processes that Spark starts: they are opened by their location."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graveler.lake import Lake


def open_lake(location: str) -> "Lake":
    """Return the lake at a location."""
    # as Spark finds the data source, by the name of the module: it stands above this package
    opened: Lake = import_module("pyspark_graveler").DefaultSource.open_lake(location)
    return opened


@cache
def lake_of_process(location: str) -> "Lake":
    """Return the lake at a location, which stays open until the process ends."""
    return open_lake(location)
