"""Reading a repository: its stores, views of its trees, listings, files."""

from graveler.reads.stores import Stores
from graveler.reads.view import Ref, View

__all__ = ["Ref", "Stores", "View"]
