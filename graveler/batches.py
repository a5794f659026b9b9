"""Streams cut into lists."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")


def batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`; the last one may be shorter."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
