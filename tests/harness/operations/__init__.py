"""Tables of operations that move something, each with what prepares it.

Tests of faults strike each of them at its calls. One test compares the tables with the public
operations, so that none is left out.
"""
