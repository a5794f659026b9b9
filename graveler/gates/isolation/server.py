"""The publisher's end of the channel: it reads the candidate for the process of a gate.

The publisher enforces the declared inputs of the gate. Every request gets a result or an error.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from graveler.clock import unix_us
from graveler.errors import CorruptionError, InvalidInputError
from graveler.fields import Fields
from graveler.gates.candidate import Candidate
from graveler.gates.declaration import plain, shortened
from graveler.gates.gate import LONGEST_REASON, Answer
from graveler.gates.isolation.channel import Message
from graveler.gates.statistics import Statistics
from graveler.model import Entry
from graveler.reads.view import find_value
from graveler.records import encode_json

LONGEST_PIECE: Final = 4 << 20
"""Largest size of a part of a file, or of a page of a listing, in one reply; in bytes."""

_PAGE: Final = 500
_MOST_LISTINGS: Final = 64
_MOST_SEEN: Final = 64
_LARGEST_SEEN: Final = 1 << 18
_LONGEST_ERROR: Final = 2_000


class ReadServer:
    """Answers the read requests of a gate's process.

    Args:
        candidate: The candidate as the gate sees it.
    """

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._listings: dict[int, Iterator[Any]] = {}
        self._numbers = count()

    def answer(self, question: Any) -> Message:
        """Return the reply to a request; an error becomes a reply."""
        try:
            return self._answer(question)
        except Exception as error:  # noqa: BLE001 - the client raises it
            return Message({"error": [type(error).__name__, shortened(str(error), _LONGEST_ERROR)]})

    def _answer(self, question: Any) -> Message:  # noqa: PLR0911 - one for each request
        candidate = self._candidate
        match question:
            case ["next", int(number), list(done)]:
                for one in done:
                    self._listings.pop(one, None)
                return self._page(number)
            case ["find", str(name), str(key)]:
                value = find_value(candidate.tree(name), bytes.fromhex(key))
                return Message({"value": _hex(value)})
            case ["read", str(name), str(path), int(start), int(length)]:
                wanted = min(max(length, 0), LONGEST_PIECE)
                return Message({}, candidate.tree(name).read(path, max(start, 0), wanted))
            case ["uri", str(address)]:
                return Message({"value": candidate.uri(Entry("", address, 0))})
            case ["restores"]:
                return Message({"value": candidate.restores})
            case ["below", str(prefix)]:
                return Message({"value": candidate.has_below(prefix)})
            case ["now"]:
                return Message({"value": candidate.now().isoformat()})
            case _:
                return self._list(self._listing(question))

    def _listing(self, question: Any) -> Iterator[Any]:
        candidate = self._candidate
        match question:
            case ["scan", str(name), str(start), str(prefix)]:
                found = candidate.tree(name).rows(bytes.fromhex(start), bytes.fromhex(prefix))
                return ([key.hex(), value.hex()] for key, value in found)
            case ["changes", str(name), str(prefix)]:
                changed = candidate.tree(name).differences(bytes.fromhex(prefix))
                return ([key.hex(), _hex(old), _hex(new)] for key, old, new in changed)
            case ["past", str(prefix)]:
                return (
                    [one.commit, unix_us(one.created), one.run, one.stats]
                    for one in candidate.earlier(prefix)
                )
            case _:
                raise InvalidInputError(f"not a question: {shortened(repr(question), 200)}")

    def _list(self, items: Iterator[Any]) -> Message:
        if len(self._listings) >= _MOST_LISTINGS:
            raise InvalidInputError(
                f"more than {_MOST_LISTINGS} listings at once: read one to its end before the next"
            )
        number = next(self._numbers)
        self._listings[number] = items
        return self._page(number)

    def _page(self, number: int) -> Message:
        """Return the next page of a listing."""
        listing = self._listings.get(number)
        if listing is None:
            raise InvalidInputError(f"no listing {number}")
        page: list[Any] = []
        size = 0
        for item in listing:
            page.append(item)
            size += sum(len(part) for part in item if isinstance(part, str))
            if len(page) >= _PAGE or size >= LONGEST_PIECE:
                return Message({"items": page, "listing": number})
        del self._listings[number]
        return Message({"items": page, "listing": None})


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def read_answer(raw: Any) -> Answer:
    """Return the answer of a gate's process.

    Raises:
        CorruptionError: It is not an answer.
    """
    found = Fields(raw, "the answer")
    seen = [_seen(item) for item in found.array("seen")]
    if len(seen) > _MOST_SEEN:
        raise CorruptionError(f"the answer has statistics of {len(seen)} prefixes")
    died = found.flag("died")
    return Answer(
        passed=found.flag("passed") and not died,
        reason=shortened(found.text("reason"), LONGEST_REASON),
        died=died,
        facts=plain(found.mapping("facts")),
        seen={("", prefix): statistics for prefix, statistics in seen},
        rule=None if found.value("rule") is None else found.text("rule"),
    )


def _seen(item: Any) -> tuple[str, Statistics]:
    match item:
        case [str(prefix), dict(raw)]:
            statistics = Statistics.decode(raw)
        case _:
            raise CorruptionError("the answer has statistics that cannot be read")
    try:
        size = len(encode_json(statistics.encode()))
    except ValueError:  # an infinite bound
        size = _LARGEST_SEEN + 1
    if size > _LARGEST_SEEN:
        raise CorruptionError(f"the answer has statistics of {prefix!r} that cannot be kept")
    return prefix, statistics
