"""``repository/ref/path``: how a path of the filesystem is read."""

from typing import Final, NamedTuple

__all__ = ["PROTOCOL", "Address"]

PROTOCOL: Final = "grav"


class Address(NamedTuple):
    """A place in a lake; what is missing at the end is "".

    Attributes:
        repository: Name of the repository.
        ref: Branch, tag, commit or ref expression; none of them holds a slash.
        path: Path in the tree, or the start of paths.
    """

    repository: str
    ref: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Split a path without protocol at its first two slashes."""
        repository, _, rest = text.strip("/").partition("/")
        ref, _, path = rest.partition("/")
        return cls(repository, ref, path)

    @property
    def text(self) -> str:
        """The path again."""
        return "/".join(part for part in self if part)

    @property
    def tree(self) -> str:
        """Repository and ref, with a slash at the end: what every path of the tree starts with."""
        return f"{self.repository}/{self.ref}/"

    @property
    def folder(self) -> str:
        """What the paths below this one start with, inside the tree."""
        return f"{self.path}/" if self.path else ""
