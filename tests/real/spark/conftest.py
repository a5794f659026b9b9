"""A repository on disk, to read from and write to with Spark."""

from tests.harness.commands import cli  # noqa: F401 - fixture
from tests.harness.spark import branch, lake, opened, repo  # noqa: F401 - fixtures
