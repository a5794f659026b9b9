"""The import of a lakeFS repository into a lake: it opens the source and makes the repository."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from graveler.base.arguments import PathText, file_path, flag, instance, storage_text, text, texts
from graveler.base.background import Progress, no_progress
from graveler.base.names import check_repository
from graveler.errors import InvalidInputError, NotFoundError, PermissionDeniedError
from graveler.lake.storages import absolute
from graveler.lakefs import Imported, Namespace, Terms, check_names, import_lakefs, read_refs
from graveler.objects.address import AddressBook, place_of, root_of
from graveler.objects.store import ObjectStore

if TYPE_CHECKING:
    from graveler.lake.lake import Lake

_MANIFEST_BYTES = 1 << 20


def import_into(
    lake: "Lake",
    open_store: Callable[[str], ObjectStore],
    source: PathText,
    name: str,
    *,
    terms: Terms,
    refs: str | Path | None,
    allow: Iterable[str],
    rename: Mapping[str, str] | None,
    default_branch: str,
    storage: PathText | None,
    progress: Progress | None,
) -> Imported:
    """Import a lakeFS repository; see ``Lake.import_lakefs``."""
    name = check_repository(text(name, "repository"))
    root = _root(storage_text(source))
    places = texts(allow, "allow")
    for option in ("etags", "skip_odd_paths", "expire_missing"):
        flag(getattr(terms, option), option)
    names = instance(rename or {}, "rename", kind=Mapping, expected="a mapping of names to names")
    namespace = Namespace(open_store(root_of(root)))
    found = read_refs(namespace, _manifest(refs)).renamed(names)
    check_names(found)
    if name not in lake.repositories():
        _check_allowed(root, places)
        _check_apart(root, storage_text(storage) if storage else lake.default_storage(name))
        branch = text(default_branch, "default_branch", empty=True) or found.default_branch()
        lake.create_repository(name, storage=storage, default_branch=branch, exist_ok=True)
    repository = lake.repository(name)
    for place in places:
        repository.links.allow(place)
    return import_lakefs(
        repository.stores,
        namespace,
        root,
        found,
        terms=terms,
        progress=progress or no_progress,
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


def _check_apart(root: str, storage: str) -> None:
    """Refuse a repository whose storage contains the source, which would be collected as garbage."""
    own = AddressBook(absolute(storage)).root
    if f"{root}/".startswith(f"{own}/"):
        raise InvalidInputError(
            f"source {root} lies in {own}, which would be the repository's own storage: give another storage"
        )


def _check_allowed(root: str, places: Iterable[str]) -> None:
    """Refuse a repository that cannot link to the files of its source."""
    book = AddressBook(root)
    if place_of(f"{root}/data", [book.place(place) for place in places]) is None:
        raise PermissionDeniedError(
            f"the files stay in {root}, and a new repository links to no place unless it is "
            f"allowed: give allow=[{root!r}] or --allow {root}"
        )
