"""The command line: ``graveler VERB``, a module for each group of verbs.

A verb is a function of a :class:`~graveler.cli.session.Session` and its own arguments. ``verb.py``
adds the shared options and turns errors into one line and an exit code. A verb imports its own
modules only when it runs, so that ``graveler log`` starts fast.
"""
