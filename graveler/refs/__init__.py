"""Branches, tags and commits; expressions over them; history; protection."""

from graveler.refs.branches import Branches
from graveler.refs.commits import Commits
from graveler.refs.epochs import Epoch, Epochs
from graveler.refs.expression import resolve, resolve_beside, resolve_to_name, resolve_to_read
from graveler.refs.history import is_ancestor, line_outside, log, merge_bases, walk
from graveler.refs.mover import advance, move, moved, remove
from graveler.refs.reflog import RefMove, all_moves, branch_moves, moves_ago, tag_moves
from graveler.refs.refs import Refs, Tags
from graveler.refs.settings import Protection

__all__ = [
    "Branches",
    "Commits",
    "Epoch",
    "Epochs",
    "Protection",
    "RefMove",
    "Refs",
    "Tags",
    "advance",
    "all_moves",
    "branch_moves",
    "is_ancestor",
    "line_outside",
    "log",
    "merge_bases",
    "move",
    "moved",
    "moves_ago",
    "remove",
    "resolve",
    "resolve_beside",
    "resolve_to_name",
    "resolve_to_read",
    "tag_moves",
    "walk",
]
