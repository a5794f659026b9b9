"""What the tests with real components share: one Spark."""

from tests.harness.spark import spark  # noqa: F401 - fixture
