"""Branches, tags and commits, their expressions, history, and protection."""
