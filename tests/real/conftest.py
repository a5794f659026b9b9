"""The shared fixture of the tests with real components: one Spark."""

from tests.harness.spark import spark, spark_master  # noqa: F401 - fixtures
