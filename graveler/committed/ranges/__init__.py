"""The ranges of a repository: writing and opening them."""
