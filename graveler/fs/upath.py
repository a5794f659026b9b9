"""``UPath("grav://flights/main/input/")``: a tree with the interface of pathlib."""

from fsspec import register_implementation
from upath._flavour import WrappedFileSystemFlavour
from upath.implementations.cloud import CloudPath

from graveler.fs.address import PROTOCOL
from graveler.fs.filesystem import GravelerFileSystem

# universal_pathlib warns about protocols that are not registered in fsspec
register_implementation(PROTOCOL, GravelerFileSystem, clobber=True)
# the repository is the drive of a path, like the bucket of an S3 path; no public setting does this
WrappedFileSystemFlavour.protocol_config["netloc_is_anchor"].add(PROTOCOL)


class GravelerPath(CloudPath):
    """A path in a lake. Its bucket is the repository."""

    __slots__ = ()
