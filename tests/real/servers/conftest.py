from tests.harness.workers import start_worker  # noqa: F401 - a fixture
