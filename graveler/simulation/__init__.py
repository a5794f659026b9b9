"""Simulation of splitting policies: the replay of a history without files, and its costs."""
