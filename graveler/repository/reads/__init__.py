"""Reads: entries, listings and verified files."""
