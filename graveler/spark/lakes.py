"""Lakes in processes that Spark starts: they are opened by their location."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from graveler.config import load_config
from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    from graveler.lake import Lake


def open_lake(location: str) -> "Lake":
    """Return the lake at a location."""
    # import by name, as Spark finds the data source, because the module is above this package
    opened: Lake = import_module("pyspark_graveler").DefaultSource.open_lake(location)
    return opened


def check_opened(location: str) -> None:
    """Refuse a lake that would be empty in another process."""
    if load_config(location).kv_uri == "mem://":
        raise InvalidInputError(
            f"the key-value store of {location} is in the memory of this process, and the processes of "
            "Spark open the lake by its location: keep it in a database, such as sqlite://kv.sqlite3"
        )


@cache
def lake_of_process(location: str) -> "Lake":
    """Return the lake at a location, which stays open until the process ends."""
    return open_lake(location)
