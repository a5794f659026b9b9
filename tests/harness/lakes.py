"""Lakes on every pair of stores."""

from itertools import count
from pathlib import Path

from graveler.committed.splitting import Splitting
from tests.harness.servers import DATABASES

_numbers = count(1)

LAKES = {
    "memory-memory": ("mem", "mem"),
    "sqlite-local": ("sqlite", "file"),
    "rocksdb-local": ("rocksdb", "file"),
    "postgres-memory": ("postgres", "mem"),
    "sqlite-s3": ("sqlite", "s3"),
}

SMALL = Splitting(min_bytes=0, max_bytes=2_000, raggedness=5)
"""Ranges of a few entries, so that every test has several."""


def kv_uri(kind: str, folder: Path, request) -> str:
    if kind == "mem":
        return "mem://"
    if kind in DATABASES:
        uri: str = request.getfixturevalue(DATABASES[kind][0])
        return uri
    return f"{kind}://{folder / 'kv'}"


def storage(kind: str, folder: Path, request) -> tuple[str, dict[str, str]]:
    if kind == "mem":
        return f"mem://lake{next(_numbers)}", {}
    if kind == "s3":
        bucket = request.getfixturevalue("s3_bucket")
        return f"s3://{bucket}/lake{next(_numbers)}", request.getfixturevalue("s3_options")
    return f"file://{folder / 'objects'}", {}
