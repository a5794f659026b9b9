"""The command line: ``graveler VERB``, a module for each group of verbs.

A verb is a function of a :class:`~graveler.cli.session.Session` and its own arguments;
``verb.py`` gives each of them the options they share, and turns errors into one line and an
exit code. A verb imports what only it needs when it runs, so that ``graveler log`` starts fast.
"""
