from tests.harness.rocksdb_tools import sst_dump  # noqa: F401 - a fixture
