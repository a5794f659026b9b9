"""What the tests with real components share: one Spark."""

from tests.harness.spark import spark, spark_master  # noqa: F401 - fixtures
