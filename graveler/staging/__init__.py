"""Uncommitted entries, with a key-value partition for each staging token."""
