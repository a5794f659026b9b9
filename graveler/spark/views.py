"""Names of temporary views, checked before a view is made."""

import re
from typing import TYPE_CHECKING, Any

from graveler.base.arguments import text
from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUOTED = re.compile(r"`(?:[^`]|``)*`")


def check_view(spark: "SparkSession", name: Any) -> None:
    """Refuse an invalid name of a temporary view."""
    from pyspark.errors import ParseException

    name = text(name, "name of a view")
    try:
        if "." not in _QUOTED.sub("", name):
            spark.catalog.tableExists(name)  # parses the name, in a session of Spark Connect too
            return
    except ParseException:
        pass
    raise InvalidInputError(
        f"tables: {name!r} is not a valid view name: give letters, digits and '_', or put it in backquotes"
    )
