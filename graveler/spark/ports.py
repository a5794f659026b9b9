"""Shared by reading and writing: the protocols of trees, and the names of files in Spark."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graveler.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SCHEMES = {"file": "file", "s3": "s3a", "s3a": "s3a", "gs": "gs", "hdfs": "hdfs"}
_PATTERN = re.compile(r"[{}\[\]*?\\]")


def spark_uri(uri: str) -> str:
    """Return `uri` as Spark's file systems name it."""
    scheme, _, rest = uri.partition("://")
    if scheme not in _SCHEMES:
        raise InvalidInputError(
            f"Spark cannot reach {uri!r}: it reads and writes {', '.join(sorted(_SCHEMES))}; "
            "keep what Spark works on in such a storage"
        )
    return f"{_SCHEMES[scheme]}://{rest}"


def is_remote(spark: "SparkSession") -> bool:
    """Return whether the session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def is_pattern(uri: str) -> bool:
    """Return whether Spark would read the address as a pattern."""
    return _PATTERN.search(uri) is not None


def read_apart(uris: Sequence[str]) -> list[tuple[str, ...]]:
    """Return files in groups, so that Spark reads each file once; a path like a pattern is alone.

    Spark reads all paths again for each path that looks like a pattern, although it expands none. A
    partition's value may have a ``}``, which Spark does not escape in a path.
    """
    alone: list[tuple[str, ...]] = [(uri,) for uri in uris if is_pattern(uri)]
    others = tuple(uri for uri in uris if not is_pattern(uri))
    return [others, *alone] if others else alone


def plain_paths(spark: "SparkSession", uris: Sequence[str]) -> list[str]:
    """Return addresses for a reader of Spark with the option ``__globPaths__`` (false).

    A server of Spark Connect changes the names of options to lower case and then does not recognize this
    option. For it, the characters of patterns are escaped.
    """
    return [_PATTERN.sub(r"\\\g<0>", uri) for uri in uris] if is_remote(spark) else list(uris)
