"""The operations of a repository, a module for each, and the branches that users write to.

Modules are loaded on first use, because most processes only read.
"""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

if TYPE_CHECKING:
    from graveler.repository import dumps as dumps
    from graveler.repository import merges as merges
    from graveler.repository import positions as positions
    from graveler.repository import preview as preview
    from graveler.repository import reverts as reverts
    from graveler.repository import strategies as strategies
    from graveler.repository.branch import Branch as Branch
    from graveler.repository.commits import packing as packing

__getattr__, __dir__, __all__ = lazy_names(__name__)
