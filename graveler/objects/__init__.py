"""Object stores: immutable objects below a root, in memory, in a folder or on S3."""

from graveler.objects.registry import open_store
from graveler.objects.store import ANYTHING, Body, Expected, ObjectInfo, ObjectStore

__all__ = ["ANYTHING", "Body", "Expected", "ObjectInfo", "ObjectStore", "open_store"]
