"""Checks and measurements of the source tree itself."""
