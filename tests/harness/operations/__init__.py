"""Tables of operations that change a lake, each with its preparation.

Tests of faults strike each operation at its calls. One test compares the tables with the public
operations, so that no operation is missing.
"""
