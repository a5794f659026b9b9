"""A local Spark, and a repository on disk for its tables."""

from tests.harness.commands import cli  # noqa: F401 - fixture
from tests.harness.spark import (  # noqa: F401 - fixtures
    branch,
    lake,
    opened,
    repo,
    spark,
    spark_master,
)
