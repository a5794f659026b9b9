"""A module that gates import."""
