"""Prints the SHA-256 of a table of some records."""

from hashlib import sha256

from tests.sstable.tables import some_records, written

print(sha256(written(some_records(500), properties={"a": "1", "b": "2"})).hexdigest())
