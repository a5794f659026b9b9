"""Faults drawn at random over the product: does a suite of tests find them?

Each fault changes one expression or statement. `python -m tests.mutation` draws them by a seed.
"""
