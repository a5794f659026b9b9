"""What the tests with real components share: one Spark, and the order of the files."""

from pathlib import Path

from tests.harness.spark import spark  # noqa: F401 - fixture

FIRST = (
    "torture/test_kills.py",
    "test_docs.py",
    "servers/test_metamorphic.py",
    "servers/test_drivers.py",
    "spark/test_demo_command.py",
)
"""Files of a minute or more that come late in the alphabet.

One worker runs a whole file. A long one at the end leaves the other workers idle.
"""


def pytest_collection_modifyitems(items):
    """Put the files of FIRST before the others; a sort keeps the order within a file."""
    here = Path(__file__).parent
    ranks = {here / name: rank for rank, name in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(item.path, len(FIRST)))
