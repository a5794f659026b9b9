"""OpenLineage: the datasets that a task reads and writes, each with its commit as the version."""
