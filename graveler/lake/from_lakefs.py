"""The source of an import of a lakeFS repository."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from graveler.base.arguments import PathText, file_path, instance, storage_text
from graveler.errors import InvalidInputError, NotFoundError, PermissionDeniedError
from graveler.lake.storages import absolute
from graveler.lakefs import LakefsRefs, Namespace, check_names, read_refs
from graveler.objects.address import AddressBook, place_of, root_of
from graveler.objects.store import ObjectStore

_MANIFEST_BYTES = 1 << 20


class LakefsSource(NamedTuple):
    """A lakeFS repository that is imported.

    Attributes:
        root: Canonical URI of its storage namespace.
        refs: Its branches and tags, under the names that they get.
    """

    root: str
    namespace: Namespace
    refs: LakefsRefs

    @classmethod
    def of(
        cls,
        open_store: Callable[[str], ObjectStore],
        source: PathText,
        refs: str | Path | None,
        rename: Mapping[str, str] | None,
    ) -> Self:
        """Return the source of a caller's arguments, see ``Lake.import_lakefs``."""
        root = _root(storage_text(source))
        names = instance(
            rename or {}, "rename", kind=Mapping, expected="a mapping of names to names"
        )
        namespace = Namespace(open_store(root_of(root)))
        found = read_refs(namespace, _manifest(refs)).renamed(names)
        check_names(found)
        return cls(root, namespace, found)

    def check_new(self, allow: Iterable[str], storage: str) -> None:
        """Refuse a new repository that cannot link to the files, or would collect them as garbage."""
        book = AddressBook(self.root)
        if place_of(f"{self.root}/data", [book.place(place) for place in allow]) is None:
            raise PermissionDeniedError(
                f"the files stay in {self.root}, and a new repository links to no place unless it is "
                f"allowed: give allow=[{self.root!r}] or --allow {self.root}"
            )
        own = AddressBook(absolute(storage)).root
        if f"{self.root}/".startswith(f"{own}/"):
            raise InvalidInputError(
                f"source {self.root} lies in {own}, which would be the repository's own storage: give "
                "another storage"
            )


def _root(source: str) -> str:
    """Return the canonical URI of a storage namespace."""
    if source.startswith("lakefs:"):
        raise InvalidInputError(
            f"source {source!r} is a repository of a lakeFS server: give its storage namespace, "
            "which `lakectl repo list` shows"
        )
    return AddressBook(absolute(source)).root


def _manifest(file: str | Path | None) -> bytes | None:
    if file is None:
        return None
    path = file_path(file, "refs")
    if not path.is_file():
        raise NotFoundError(f"no dump of refs at {path}: there is no such file")
    if path.stat().st_size > _MANIFEST_BYTES:
        raise InvalidInputError(
            f"{path} has more than {_MANIFEST_BYTES} bytes: no dump of refs has"
        )
    return path.read_bytes()
