"""Orchestrators that really run, and everything that can happen to them.

A harness starts an orchestrator of its own on a fresh home, lets it work off hours of a lake, and
meanwhile kills, cancels, clears and marks by a plan that a seed decides. What an hour must hold
is a function of the hour alone, so that afterwards the lake can be compared with it byte by byte.
"""
