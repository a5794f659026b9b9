"""Servers that tests start on first use, one of a kind for each session, as fixtures."""
