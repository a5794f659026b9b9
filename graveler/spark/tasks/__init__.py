"""Work that tasks of Spark do: imports, commits, collection, checks, exports."""
