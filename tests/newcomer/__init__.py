"""Follows guides word for word, as a newcomer does on an empty machine."""
