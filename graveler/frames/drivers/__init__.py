"""Frames of one library each. Only the first use of a library imports its module."""
