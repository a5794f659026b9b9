"""Garbage collection: retention rules, marks and sweeps."""
