"""Branches, tags and commits, their expressions, history, and protection."""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

if TYPE_CHECKING:
    from graveler.refs import dump as dump

__getattr__, __dir__, __all__ = lazy_names(__name__)
