"""The cache of a host: tables in their local form, on disk and in memory."""
