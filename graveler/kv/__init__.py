"""Mutable metadata: the key-value store interface and its drivers."""
