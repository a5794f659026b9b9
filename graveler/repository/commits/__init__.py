"""Commits of a branch: of all that is staged, of some paths, and packs."""
