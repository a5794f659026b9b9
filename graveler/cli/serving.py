"""Services that run until they are stopped."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from graveler.errors import GravelerError

if TYPE_CHECKING:
    from graveler.server.server import Service

_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 8.0


def serve(open_service: "Callable[[], Service]") -> None:
    """Run a service until Ctrl-C or SIGTERM, of which the second one ends active requests."""
    with _stopped() as (first, second):
        service = open_service()
        first.wait()
        end = monotonic() + _GRACE_SECONDS
        while not second.is_set() and monotonic() < end:
            if service.close(seconds=_LOOK_SECONDS):
                return
        service.cut()


def repeat(work: Callable[[], None], every: timedelta) -> None:
    """Work at once and then again and again, until Ctrl-C or SIGTERM; an error waits for the next time."""
    with _stopped() as (first, _):
        while True:
            try:
                work()
            except GravelerError as error:
                sys.stderr.write(f"error: {error}\n")
            if first.wait(every.total_seconds()):
                return


@contextmanager
def _stopped() -> Iterator[tuple[Event, Event]]:
    """Yield the event that the first Ctrl-C or SIGTERM sets, and the event of the second one."""
    events = (Event(), Event())

    def stop(*_: object) -> None:
        (events[1] if events[0].is_set() else events[0]).set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield events
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
