"""Waits for tables in a storage and for marks of tasks."""

from tests.harness.gc_lakes import keys
from tests.harness.servers.spark import wait_until


def tables_of(repo, count):
    """Wait until tasks have written `count` tables; return the number of tables."""
    return wait_until(
        lambda: len(there) if len(there := keys(repo, "_graveler/")) >= count else 0,
        f"{count} tables",
    )


def mark_in(folder, name):
    """Wait until a program has written the mark; return its line."""

    def line():
        text = (folder / name).read_text() if (folder / name).exists() else ""
        return text.strip() if text.endswith("\n") else ""

    return wait_until(line, f"the mark {name}")
