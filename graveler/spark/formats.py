"""Formats of whole tables, which `read` and `write` do not take: what to do instead."""

from collections.abc import Mapping
from typing import Final

from graveler.errors import InvalidInputError

_GATEWAY: Final = (
    "a Delta table is its log and the files that the log names. Read and write it through the gateway, as "
    "delta.`webhdfs://…/repository/branch/path`, and commit the branch; this was tried with PySpark 4.1.1 "
    "and io.delta:delta-spark_4.1_2.13:4.1.0, and on PySpark 4.3.0 that jar reads no table"
)
_REFUSED: Final[Mapping[str, str]] = {
    "delta": _GATEWAY,
    "iceberg": (
        "the metadata of an Iceberg table holds the whole addresses of its files, so it stands for the "
        "branch that it was written on, and not for a merge: keep the table as Parquet, or as a Delta table"
    ),
    "hudi": (
        "a Hudi table is its timeline and the files that the timeline names, and none was tried: keep the "
        "table as Parquet, or as a Delta table"
    ),
}


def check_format(path: str, format: str) -> None:  # noqa: A002 - Spark's own word
    """Refuse a format whose tables are more than their files.

    Raises:
        InvalidInputError: It is such a format; the message says what to do.
    """
    reason = _REFUSED.get(format.lower())
    if reason is not None:
        raise InvalidInputError(f"{path!r}: format {format!r}: {reason}")


def refuse_delta(folder: str) -> None:
    """Refuse to take the files of a Delta table for the table.

    Raises:
        InvalidInputError: Always.
    """
    raise InvalidInputError(
        f"{folder!r} is a Delta table, and some of its files may hold rows that were replaced: {_GATEWAY}"
    )
