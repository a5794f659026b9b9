"""Committed trees: ranges and metaranges, and how they are built, compared and merged."""
