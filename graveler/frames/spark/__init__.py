"""Tables of Spark: sessions, and reading and writing the files of a table."""
