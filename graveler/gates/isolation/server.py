"""The publisher's end of the channel: it reads the candidate for the process of a gate.

The publisher enforces the declared inputs of the gate. Every request gets a result or an error.
"""

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from itertools import count
from typing import Any

from graveler.errors import BackendUnavailableError, GravelerError, InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import shortened
from graveler.model import Entry
from graveler.reads.view import find_value

_LONGEST_PIECE = 4 << 20
"""Largest part of a file, or page of a listing, in one reply, in bytes."""

_PAGE = 500
_MOST_LISTINGS = 64


class ReadServer:
    """Answers the read requests of a gate's process."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        # a process may stop reading a listing early, so the least recently used one is dropped
        self._listings: OrderedDict[int, Iterator[Any]] = OrderedDict()
        self._numbers = count()

    def answer(self, request: Any) -> bytes:
        """Return the reply to a request, pickled: a value, or the error that the process raises."""
        try:
            reply = self._answer(request)
        except GravelerError as error:
            reply = error
        except Exception as error:  # noqa: BLE001 - the process raises it
            what = f"{type(error).__name__}: {error}"
            reply = BackendUnavailableError(f"the publisher could not read for this gate: {what}")
        return pickle.dumps(reply)

    def _answer(self, request: Any) -> Any:
        candidate = self._candidate
        match request:
            case ["next", int(number)]:
                reply: Any = self._page(number)
            case ["read", str(name), str(path), int(start), int(length)]:
                wanted = min(max(length, 0), _LONGEST_PIECE)
                reply = candidate.tree(name).read_range(path, max(start, 0), wanted)
            case ["find", str(name), str(key)]:
                reply = find_value(candidate.tree(name), bytes.fromhex(key))
            case ["uri", str(address)]:
                reply = candidate.uri(Entry("", address, 0))
            case ["restores"]:
                reply = candidate.restores
            case ["below", str(prefix)]:
                reply = candidate.has_below(prefix)
            case ["now"]:
                reply = candidate.now()
            case _:
                number = next(self._numbers)
                self._listings[number] = self._listing(request)
                reply = self._page(number)
        return reply

    def _listing(self, request: Any) -> Iterator[Any]:
        match request:
            case ["scan", str(name), str(start), str(prefix)]:
                tree = self._candidate.tree(name)
                return tree.rows(bytes.fromhex(start), bytes.fromhex(prefix))
            case ["changes", str(name), str(prefix)]:
                return self._candidate.tree(name).differences(bytes.fromhex(prefix))
            case ["past", str(prefix)]:
                return self._candidate.earlier(prefix)
            case _:
                raise InvalidInputError(f"not a question: {shortened(repr(request), 200)}")

    def _page(self, number: int) -> tuple[list[Any], int | None]:
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
            size += sum(len(part) for part in item if isinstance(part, bytes))
            if len(page) >= _PAGE or size >= _LONGEST_PIECE:
                return page, number
        del self._listings[number]
        return page, None
