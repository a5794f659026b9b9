"""Run the shipped code under a scheduler: every interleaving, every fault, and the checkers.

``python -m tests.simulate`` explores the scenarios and prints a table. The design note
``docs/design/0008-simulation.md`` describes the method.
"""
