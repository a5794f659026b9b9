"""``UPath("grav://flights/main/input/")``: a tree by the ways of pathlib."""

from upath.implementations.cloud import CloudPath

__all__ = ["GravelerPath"]


class GravelerPath(CloudPath):
    """A path in a lake; its bucket is the repository."""

    __slots__ = ()
