"""Metadata as frames: the data source ``format("graveler")`` and its readers."""
