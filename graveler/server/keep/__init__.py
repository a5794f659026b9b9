"""Keep: a server of blocks, for clients of graveler and of Arvados, and for the data manager."""
