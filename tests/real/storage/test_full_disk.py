"""A process with a limit of file sizes: it covers the database's files, objects and ranges."""

import pytest

from tests.harness.programs import output_of

KINDS = {"BackendUnavailableError", "OutcomeUnknownError", "StorageFullError"}


@pytest.mark.parametrize("kv", ["sqlite", "rocksdb"])
def test_files_that_may_not_grow(kv, tmp_path):
    said = output_of("real.storage.programs.limited", kv, tmp_path / "lake", timeout=120)
    met = dict(line.split(maxsplit=1) for line in said.splitlines())
    assert set(met) == {"put", "commit", "merge"}
    assert all(errors and set(errors.split()) <= KINDS for errors in met.values())
