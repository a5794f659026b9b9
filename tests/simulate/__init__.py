"""The shipped code under a scheduler of ours: every interleaving, every fault, and its judges.

``python -m tests.simulate`` explores and prints a table; ``docs/design`` says how and why.
"""
