"""Table formats that `read` and `write` refuse, with the advice for each."""

from collections.abc import Mapping

from graveler.errors import InvalidInputError

_GATEWAY = (
    "a Delta table is its log and the files that the log names. Read and write it through the gateway, as "
    "delta.`webhdfs://…/repository/branch/path`, and commit the branch; this was tried with PySpark 4.1.1 "
    "and io.delta:delta-spark_4.1_2.13:4.1.0, and on PySpark 4.3.0 that jar reads no table"
)
_REFUSED: Mapping[str, str] = {
    "delta": _GATEWAY,
    "iceberg": (
        "the metadata of an Iceberg table holds the full addresses of its files, so it is valid for the "
        "branch that it was written on, and not after a merge: keep the table as Parquet, or as a Delta table"
    ),
    "hudi": (
        "a Hudi table is its timeline and the files that the timeline names, and none was tried: keep the "
        "table as Parquet, or as a Delta table"
    ),
}


def check_format(path: str, format: str) -> None:
    """Refuse a table format, in which a table is more than its files."""
    reason = _REFUSED.get(format.lower())
    if reason is not None:
        raise InvalidInputError(f"{path!r}: format {format!r}: {reason}")


def refuse_delta(folder: str) -> None:
    """Refuse to read the files of a Delta table as the table."""
    raise InvalidInputError(
        f"{folder!r} is a Delta table, and some of its files may hold rows that were replaced: {_GATEWAY}"
    )
