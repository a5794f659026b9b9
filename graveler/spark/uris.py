"""How an object's address reads to Spark, and what Spark does not take."""

import re
from pathlib import PurePosixPath
from typing import Final

from graveler.errors import InvalidInputError

__all__ = ["is_hidden", "is_pattern", "spark_uri"]

_SCHEMES: Final = {"file": "file", "s3": "s3a", "s3a": "s3a", "gs": "gs", "hdfs": "hdfs"}
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")


def spark_uri(uri: str) -> str:
    """Return `uri` as Spark's file systems name it.

    Raises:
        InvalidInputError: Spark has no file system for it.
    """
    scheme, _, rest = uri.partition("://")
    if scheme not in _SCHEMES:
        raise InvalidInputError(
            f"Spark cannot reach {uri!r}: it reads and writes {', '.join(sorted(_SCHEMES))}; "
            "keep what Spark works on in such a storage"
        )
    return f"{_SCHEMES[scheme]}://{rest}"


def is_pattern(uri: str) -> bool:
    """Return whether Spark would take the address for a pattern."""
    return _PATTERN.search(uri) is not None


def is_hidden(relative: str) -> bool:
    """Return whether Spark passes over the file: ``_SUCCESS``, ``_temporary/…``, ``.part.crc``."""
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part)
        for part in PurePosixPath(relative).parts
    )
