"""Branches, tags and commits, their expressions, history, and protection."""

from typing import TYPE_CHECKING

from graveler.exports import lazy_names

if TYPE_CHECKING:
    from graveler.refs import dump as dump
    from graveler.refs.branches import Branches as Branches
    from graveler.refs.commits import Commits as Commits
    from graveler.refs.epochs import Epoch as Epoch
    from graveler.refs.epochs import Epochs as Epochs
    from graveler.refs.expression import resolve as resolve
    from graveler.refs.expression import resolve_beside as resolve_beside
    from graveler.refs.expression import resolve_to_name as resolve_to_name
    from graveler.refs.expression import resolve_to_read as resolve_to_read
    from graveler.refs.history import is_ancestor as is_ancestor
    from graveler.refs.history import line_outside as line_outside
    from graveler.refs.history import log as log
    from graveler.refs.history import merge_bases as merge_bases
    from graveler.refs.history import outside as outside
    from graveler.refs.history import walk as walk
    from graveler.refs.mover import advance as advance
    from graveler.refs.mover import move as move
    from graveler.refs.mover import moved as moved
    from graveler.refs.mover import remove as remove
    from graveler.refs.reflog import RefMove as RefMove
    from graveler.refs.reflog import all_moves as all_moves
    from graveler.refs.reflog import branch_moves as branch_moves
    from graveler.refs.reflog import moves_ago as moves_ago
    from graveler.refs.reflog import tag_moves as tag_moves
    from graveler.refs.refs import Refs as Refs
    from graveler.refs.refs import Tags as Tags
    from graveler.refs.selection import Selection as Selection
    from graveler.refs.settings import Protection as Protection

__getattr__, __dir__, __all__ = lazy_names(__name__)
