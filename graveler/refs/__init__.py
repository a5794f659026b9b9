"""Branches, tags and commits; expressions over them; history; protection."""

from graveler.refs.branches import Branches
from graveler.refs.commits import Commits
from graveler.refs.expecting import resolve_to_name, resolve_to_read
from graveler.refs.expression import resolve
from graveler.refs.history import is_ancestor, log, merge_base
from graveler.refs.mover import advance, backoff, move
from graveler.refs.protection import Protection
from graveler.refs.refs import Refs
from graveler.refs.tags import Tags

__all__ = [
    "Branches",
    "Commits",
    "Protection",
    "Refs",
    "Tags",
    "advance",
    "backoff",
    "is_ancestor",
    "log",
    "merge_base",
    "move",
    "resolve",
    "resolve_to_name",
    "resolve_to_read",
]
