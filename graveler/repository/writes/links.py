"""Links: entries of files that are already in a store. Each file is looked up.

Many files are looked up in as few requests as possible.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from os.path import commonprefix
from typing import NamedTuple

from graveler.base.arguments import check_entry, path_text
from graveler.base.background import Threads
from graveler.base.names import check_path
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.model import Entry, seal_of
from graveler.objects.address import AddressBook, is_own
from graveler.objects.store import ObjectInfo, ObjectStore, version_of
from graveler.objects.verified import check_declared
from graveler.reads.stores import Stores
from graveler.refs.epochs import Epoch


def linked(
    stores: Stores, entries: Iterable[Entry], *, sized: bool = True, epoch: Epoch | None = None
) -> tuple[list[Entry], Epoch]:
    """Return the entries in their stored form, with normalized addresses. All files are looked up.

    Times, and the versions of foreign files, are those that the store reports. A checksum is the
    caller's, unless the entry has graveler's own bytes.

    Returns:
        The entries, and the epoch of sweeps under which own files were looked up.
    """
    book = AddressBook(stores.storage)
    owners = Owners(stores.neighbours, book)
    forms = [checked(entry, book, owners) for entry in entries]
    if epoch is None:
        borrows = any(is_own(entry.address) for entry in forms)
        epoch = stores.refs.epochs.read() if borrows else Epoch()
    infos = _infos(stores, {entry.address for entry in forms})
    return [_seen(entry, infos, sized=sized) for entry in forms], epoch


class LinkRules(NamedTuple):
    """The rules for files to which a repository may link. They work without a key-value store.

    Attributes:
        places: Normalized places to which entries may link.
        neighbours: The other repositories of the lake, each with the root of its storage.
    """

    repository: str
    storage: str
    places: Sequence[str]
    neighbours: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, stores: Stores) -> "LinkRules":
        """Return the current rules of a repository."""
        places = tuple(stores.refs.links.list())
        return cls(stores.name, stores.storage, places, tuple(stores.neighbours()))


class Owners:
    """Detects foreign files that are in the storage of another repository."""

    def __init__(
        self, neighbours: Callable[[], Iterable[tuple[str, str]]], book: AddressBook
    ) -> None:
        self._neighbours = neighbours
        self._book = book
        self._roots: list[tuple[str, str]] | None = None
        self._free: set[str] = set()

    def check(self, uri: str) -> None:
        """Refuse a file in another repository's storage."""
        folder = uri.rpartition("/")[0]
        if folder in self._free:
            return
        if self._roots is None:
            self._roots = [(name, self._book.place(root)) for name, root in self._neighbours()]
        for name, root in self._roots:
            if self._book.key_below(root, uri) is not None:
                raise InvalidInputError(
                    f"address {uri!r} lies in the storage of repository {name!r}, whose garbage "
                    "collection ignores links from here: copy the bytes instead, with "
                    f"put(path, repository({name!r}).ref(…).open(path))"
                )
        self._free.add(folder)


def checked(entry: Entry, book: AddressBook, owners: Owners) -> Entry:
    """Return an entry with a normalized address, or refuse it. The file is not looked up."""
    check_path(path_text(entry.path, "path"))
    check_entry(entry)
    try:
        check_declared(entry.checksum)
        address = book.stored_form(entry.address)
        if not is_own(address):
            owners.check(address)
    except InvalidInputError as error:
        raise InvalidInputError(f"entry {entry.path!r}: {error}") from error
    return entry if address == entry.address else replace(entry, address=address)


def _infos(stores: Stores, addresses: Collection[str]) -> Mapping[str, tuple[ObjectInfo, str]]:
    """Return the existing objects and their versions, by address."""
    by_store: defaultdict[ObjectStore, dict[str, str]] = defaultdict(dict)
    places = [] if all(map(is_own, addresses)) else stores.refs.links.list()
    for address in addresses:
        own = is_own(address)
        store, key = (stores.objects, address) if own else stores.locate_foreign(address, places)
        by_store[store][key] = address
    return {
        keys[key]: (info, version_in(store, info))
        for store, keys in by_store.items()
        for key, info in look_up(store, keys).items()
    }


def version_in(store: ObjectStore, info: ObjectInfo) -> str:
    """Return the version of a foreign file in the form of entries."""
    return version_of(info, "mtime: " if store.root.startswith("file:") else "etag:")


def _seen(entry: Entry, infos: Mapping[str, tuple[ObjectInfo, str]], *, sized: bool) -> Entry:
    if entry.address not in infos:
        raise ObjectNotFoundError(
            f"entry {entry.path!r}: there is no object at {entry.address!r}; addresses are not "
            "decoded, percent signs stay"
        )
    info, version = infos[entry.address]
    if sized and entry.size != info.size:
        raise InvalidInputError(
            f"entry {entry.path!r}: {entry.address!r} has {info.size} bytes, not {entry.size}"
        )
    own = is_own(entry.address)
    checksum = entry.checksum or info.checksum
    known = entry.computed and entry.seal == seal_of(entry)
    # not `replace`, which takes three times as long for thousands of entries
    return Entry(
        path=entry.path,
        address=entry.address,
        size=info.size,
        checksum=checksum,
        content_type=entry.content_type,
        mtime=info.mtime,
        metadata=entry.metadata,
        version="" if own else version,
        computed=own and (known or (not entry.checksum and bool(info.checksum))),
        seal=(entry.address, info.size, checksum),
    )


AT_A_TIME = 32
"""Concurrent requests for single objects."""

_PAGE = 1_000


def look_up(store: ObjectStore, keys: Iterable[str]) -> dict[str, ObjectInfo]:
    """Return the existing objects by key.

    A page of a listing takes as long as one round of requests for single objects. So the keys are
    taken from a listing as long as each page has more of them than a round. If a page has fewer,
    some rounds of single requests follow, more each time.
    """
    wanted = sorted(set(keys), key=str.encode)
    if not store.put_threads:  # the local disk: a request costs nothing
        return dict(_heads(store, wanted))
    listed: dict[str, ObjectInfo] = {}
    single: list[str] = []
    at, skip = 0, AT_A_TIME
    while len(wanted) - at >= AT_A_TIME:
        began, at = at, _list(store, wanted, at, listed)
        if at - began >= AT_A_TIME:
            skip = AT_A_TIME
            continue
        single += wanted[at : at + skip]
        at += skip
        skip *= 2
    infos = {key: listed[key] for key in wanted if key in listed}
    infos.update(_heads(store, single + wanted[at:]))
    return infos


def _list(store: ObjectStore, wanted: list[str], at: int, listed: dict[str, ObjectInfo]) -> int:
    """List from the key at `at` on while this is cheaper. Return the reached position."""
    prefix = commonprefix([wanted[at], wanted[-1]]).rpartition("/")[0]  # noqa: RUF071 - cut at a slash
    listing = store.list(f"{prefix}/" if prefix else "", after=wanted[at][:-1])
    while True:
        page = list(islice(listing, _PAGE))
        listed.update((info.key, info) for info in page)
        began = at
        last = page[-1].key.encode() if len(page) == _PAGE else None
        while at < len(wanted) and (last is None or wanted[at].encode() <= last):
            at += 1
        if last is None or at == len(wanted) or at - began < AT_A_TIME:
            return at


def _heads(store: ObjectStore, keys: list[str]) -> Iterator[tuple[str, ObjectInfo]]:
    def head(key: str) -> ObjectInfo | None:
        try:
            return store.head(key)
        except ObjectNotFoundError:
            return None

    if len(keys) <= 1 or not store.put_threads:
        infos = list(map(head, keys))
    else:
        with Threads(min(AT_A_TIME, len(keys)), "graveler-look-up") as pool:
            infos = list(pool.map(head, keys))
    return ((key, info) for key, info in zip(keys, infos, strict=True) if info is not None)
