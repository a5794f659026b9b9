"""Hadoop's own tests of a file system, run against the server with Hadoop's client."""
