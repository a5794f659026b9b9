"""Users and rights: who may do what on everything that is served.

A process that holds the keys of the key-value store is not asked.
"""
