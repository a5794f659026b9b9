"""Parallel listings of a folder or a bucket prefix, split by common prefixes."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from itertools import islice

from graveler.base.background import Threads
from graveler.errors import InvalidInputError
from graveler.objects.address import AddressBook
from graveler.objects.store import ObjectInfo, ObjectStore, check_key
from graveler.reads.stores import Stores
from graveler.repository.imports.found import Found, Piece, Source
from graveler.repository.writes.links import version_in

_THREADS = 8
_PAGE = 1_000
_DEEPEST = 3


def listing(
    stores: Stores, place: str, leaves_out: Callable[[str], bool] = lambda _: False
) -> Source:
    """Return a folder, or a prefix of a bucket, as the source of an import."""
    uri = AddressBook(stores.storage).place(place)
    store, key = stores.locate_foreign(f"{uri}/_", stores.refs.links.list())
    folder = key.removesuffix("_")

    def read() -> Iterator[Found]:
        infos = _listed(store, folder)
        kept = (info for info in infos if not leaves_out(info.key[len(folder) :]))
        return _found(store, uri, folder, kept)

    def pieces() -> list[Piece]:
        files, folders = _split(store, folder)
        first = partial(_found, store, uri, folder, files)
        return [first, *(partial(_found_below, store, uri, folder, each) for each in folders)]

    return Source(uri, read, pieces, is_listing=True)


def _found(
    store: ObjectStore, uri: str, folder: str, infos: Iterable[ObjectInfo]
) -> Iterator[Found]:
    """Yield the files of a listing of the folder with the given URI."""
    for info in infos:
        below = info.key[len(folder) :]
        try:
            check_key(info.key)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{uri}: {error}; rename the object, or leave {below!r} out"
            ) from error
        if not info.etag:
            info = store.head(info.key)  # noqa: PLW2901 - the error of a link
        yield Found(
            address=f"{uri}/{below}",
            path=below,
            size=info.size,
            version=version_in(store, info),
            mtime=info.mtime,
            where=f"{uri}/{below}",
        )


def _found_below(store: ObjectStore, uri: str, folder: str, below: str) -> Iterator[Found]:
    """Yield the files of a part of a folder."""
    return _found(store, uri, folder, store.list(below))


def _listed(store: ObjectStore, folder: str) -> Iterator[ObjectInfo]:
    """Yield the objects below a folder, in no particular order."""
    if not store.put_threads:  # the caller's own disk
        yield from store.list(folder)
        return
    files, folders = _split(store, folder)
    yield from files
    with Threads(_THREADS, "graveler-listing") as pool:
        waiting = iter([store.list(each) for each in folders])
        running: dict[Future[list[ObjectInfo]], Iterator[ObjectInfo]] = {}

        def run(part: Iterator[ObjectInfo] | None) -> None:
            if part is not None:
                running[pool.submit(partial(_page, part))] = part

        for part in islice(waiting, _THREADS):
            run(part)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                part = running.pop(future)
                page = future.result()
                run(part if len(page) == _PAGE else next(waiting, None))
                yield from page


def _page(part: Iterator[ObjectInfo]) -> list[ObjectInfo]:
    return list(islice(part, _PAGE))


def _split(store: ObjectStore, folder: str) -> tuple[list[ObjectInfo], list[str]]:
    """Return folders for parallel listings, and the files outside of them."""
    files: list[ObjectInfo] = []
    folders = [folder]
    for _ in range(_DEEPEST):
        if not 0 < len(folders) < _THREADS:
            break
        folders, level = [], folders
        for each in level:
            for item in store.level(each):
                if isinstance(item, str):
                    folders.append(item)
                else:
                    files.append(item)
    return files, folders


def relative(below: str, uri: str) -> str | None:
    """Return the path of a file below a place, or None. Both URIs are normalized."""
    return uri[len(below) + 1 :] if uri.startswith(f"{below}/") else None


def base_of(stores: Stores, below: str) -> str:
    """Return the normalized place to which paths are relative."""
    try:
        return AddressBook(stores.storage).place(below)
    except InvalidInputError as error:
        raise InvalidInputError(f"below={below!r}: {error}") from error
