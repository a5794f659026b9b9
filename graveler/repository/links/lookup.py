"""What a store knows of many objects, asked for in as few requests as can be."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from os.path import commonprefix
from typing import Final

from graveler.errors import ObjectNotFoundError
from graveler.objects.store import ObjectInfo, ObjectStore

AT_A_TIME: Final = 32
"""Requests for single objects that are under way together."""

_PAGE: Final = 1_000


def look_up(store: ObjectStore, keys: Iterable[str]) -> dict[str, ObjectInfo]:
    """Return what the store knows of those objects that are there, by key.

    A page of a listing takes as long as one round of requests for single objects. So the keys
    are looked for in a listing as long as each of its pages has more of them than a round would;
    where a page has fewer, some rounds of single requests come next, more each time.
    """
    wanted = sorted(set(keys), key=str.encode)
    if not store.put_threads:  # the caller's own disk: a request costs nothing
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
    found = {key: listed[key] for key in wanted if key in listed}
    found.update(_heads(store, single + wanted[at:]))
    return found


def _list(store: ObjectStore, wanted: list[str], at: int, listed: dict[str, ObjectInfo]) -> int:
    """List from the key at `at` on while it is worth it; return up to where all is known."""
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
        with ThreadPoolExecutor(min(AT_A_TIME, len(keys)), "graveler-look-up") as pool:
            infos = list(pool.map(head, keys))
    return ((key, info) for key, info in zip(keys, infos, strict=True) if info is not None)
