"""Operators: the tasks of a run, gates, branches, commits, files, ingestion, partitions."""
