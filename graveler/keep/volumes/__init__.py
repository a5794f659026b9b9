"""Volumes: where the blocks of a server are (a port and its drivers)."""
