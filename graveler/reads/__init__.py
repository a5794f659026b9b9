"""Reading a repository: its stores, views of its trees, listings, files."""
