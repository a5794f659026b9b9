"""The command line: ``graveler VERB``, a module for each group of verbs.

A verb is a function of a :class:`~graveler.cli.session.Session` and its own arguments. ``verb.py``
reads its options from its signature and docstring, adds the shared ones, and turns errors into one
line and an exit code. A verb imports its own modules only when it runs, so that ``graveler log``
starts fast.
"""
