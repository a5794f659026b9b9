"""``UPath("grav://flights/main/input/")``: a tree by the ways of pathlib."""

from fsspec import register_implementation
from upath._flavour import WrappedFileSystemFlavour
from upath.implementations.cloud import CloudPath

from graveler.fs.address import PROTOCOL
from graveler.fs.filesystem import GravelerFileSystem

# what fsspec has not loaded yet universal_pathlib guesses about, and says so in a warning
register_implementation(PROTOCOL, GravelerFileSystem, clobber=True)
# the repository is a path's drive, as the bucket of an S3 path is: there is no public way to say so
WrappedFileSystemFlavour.protocol_config["netloc_is_anchor"].add(PROTOCOL)


class GravelerPath(CloudPath):
    """A path in a lake; its bucket is the repository."""

    __slots__ = ()
