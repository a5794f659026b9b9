"""Streams of Spark: the sink, the source of changes, and the rows that changes append."""
