"""Fixtures of servers, which start on first use; each session has one of each kind."""
