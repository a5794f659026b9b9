"""Real orchestrators, and every failure that can happen to them.

A harness starts an orchestrator in a fresh home, lets it process the hours of a lake, and meanwhile
kills, cancels, clears and marks by a plan from a seed. The content of an hour depends on the hour
alone. So afterwards the lake can be compared with the expected content byte by byte.
"""
