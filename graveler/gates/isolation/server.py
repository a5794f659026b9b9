"""The publisher's end of the channel: it reads the candidate for the process of a gate.

The publisher enforces the declared inputs of the gate. Every request gets a result or an error.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import count
from typing import Any

from graveler.base.clock import unix_us
from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import shortened
from graveler.gates.isolation.channel import Message
from graveler.model import Entry
from graveler.reads.view import find_value

LONGEST_PIECE = 4 << 20
"""Largest part of a file, or page of a listing, in one reply, in bytes."""

_PAGE = 500
_MOST_LISTINGS = 64
_LONGEST_ERROR = 2_000


class ReadServer:
    """Answers the read requests of a gate's process.

    Args:
        candidate: The candidate as the gate sees it.
    """

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        # a process may stop reading a listing early, so the least recently used one is dropped
        self._listings: OrderedDict[int, Iterator[Any]] = OrderedDict()
        self._numbers = count()

    def answer(self, request: Any) -> Message:
        """Return the reply to a request; an error becomes a reply."""
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001 - the client raises it
            return Message({"error": [type(error).__name__, shortened(str(error), _LONGEST_ERROR)]})

    def _answer(self, request: Any) -> Message:
        candidate = self._candidate
        match request:
            case ["next", int(number)]:
                return self._page(number)
            case ["read", str(name), str(path), int(start), int(length)]:
                wanted = min(max(length, 0), LONGEST_PIECE)
                return Message({}, candidate.tree(name).read_range(path, max(start, 0), wanted))
            case ["find", str(name), str(key)]:
                value: Any = _hex(find_value(candidate.tree(name), bytes.fromhex(key)))
            case ["uri", str(address)]:
                value = candidate.uri(Entry("", address, 0))
            case ["restores"]:
                value = candidate.restores
            case ["below", str(prefix)]:
                value = candidate.has_below(prefix)
            case ["now"]:
                value = candidate.now().isoformat()
            case _:
                number = next(self._numbers)
                self._listings[number] = self._listing(request)
                return self._page(number)
        return Message({"value": value})

    def _listing(self, request: Any) -> Iterator[Any]:
        candidate = self._candidate
        match request:
            case ["scan", str(name), str(start), str(prefix)]:
                rows = candidate.tree(name).rows(bytes.fromhex(start), bytes.fromhex(prefix))
                return ([key.hex(), value.hex()] for key, value in rows)
            case ["changes", str(name), str(prefix)]:
                changed = candidate.tree(name).differences(bytes.fromhex(prefix))
                return ([key.hex(), _hex(old), _hex(new)] for key, old, new in changed)
            case ["past", str(prefix)]:
                return (
                    [one.commit, unix_us(one.created), one.run, one.hour, one.stats]
                    for one in candidate.earlier(prefix)
                )
            case _:
                raise InvalidInputError(f"not a question: {shortened(repr(request), 200)}")

    def _page(self, number: int) -> Message:
        """Return the next page of a listing; its number is None on the last page."""
        if number not in self._listings:
            raise InvalidInputError(
                f"no listing {number}; of more than {_MOST_LISTINGS} listings at once, the one used "
                "longest ago ends: read one to its end before the next"
            )
        self._listings.move_to_end(number)
        if len(self._listings) > _MOST_LISTINGS:
            self._listings.popitem(last=False)
        page: list[Any] = []
        size = 0
        for item in self._listings[number]:
            page.append(item)
            size += sum(len(part) for part in item if isinstance(part, str))
            if len(page) >= _PAGE or size >= LONGEST_PIECE:
                return Message({"items": page, "listing": number})
        del self._listings[number]
        return Message({"items": page, "listing": None})


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
