"""Sensors of commits and of branches."""
