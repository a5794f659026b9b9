"""Tables of Apache Iceberg in a tree: their layout, files and metadata, and how they merge."""
