"""A simulated process: a greenlet that stops before each call of a store.

A process learns only the results of its calls. Its state therefore consists of its program and
the results that it has seen. A digest of these results identifies the state.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import get_ident

from greenlet import getcurrent, greenlet

from graveler.base.clock import Clock, IdSource
from graveler.testing.faults import ProcessDied
from tests.simulate.history import History, Operation
from tests.simulate.scenarios.shared import Access, Call, Shared

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Process:
    """One process over the shared stores.

    Attributes:
        name: The name in schedules.
        pending: The next call; None if the process has ended.
        begins: The operation whose first call comes next.
        ended: The operation that ended since the last call.
        late: Objects and commit records that the process has created. They are named by their
            content. No other process can need them before the next call of this process, so
            they become visible together with that call.
        digest: The digest of all results that the process has seen.
        beside: The accesses of the process in the current step beside its call: those of its other
            threads, for which the step waits, and those by which it learned whether an object exists.
        day: The day on which its clock begins, and on which its objects are written.
        scheduled: Whether its calls wait for a scheduler; otherwise they are made immediately.
    """

    def __init__(
        self, index: int, name: str, shared: Shared, history: History, *, day: int = 0
    ) -> None:
        self.index = index
        self.day = day
        self.beside: list[Access] = []
        self._thread = get_ident()
        self.name = name
        self.shared = shared
        self.history = history
        self.pending: Call | None = None
        self.begins: Operation | None = None
        self.current: Operation | None = None
        self.ended: Operation | None = None
        self.late: dict[tuple[str, bytes], bytes] = {}
        self.digest = hash(name)
        self.scheduled = False
        self.dead = False
        self.failure: BaseException | None = None
        self.seen: dict[bytes, bytes] = {}
        self.clock = _ProcessClock(index, day)
        self.ids = _ProcessIds(index)
        self._greenlet: greenlet | None = None

    def start(self, program: Callable[[], object]) -> None:
        """Run the program up to its first call."""
        self.scheduled = True

        def body() -> None:
            try:
                program()
            except ProcessDied:
                pass
            except Exception as error:  # noqa: BLE001 - the judge reports it
                self.failure = error

        self._greenlet = greenlet(body)
        self._greenlet.switch()

    def call(self, call: Call) -> object:
        """Make a call when the scheduler takes this step; return its result or raise its error."""
        if self.dead:
            raise ProcessDied(call.name)
        if get_ident() != self._thread:
            result, touched = self.shared.perform(call)
            self.beside += touched
            return result
        if self.scheduled:
            self.pending = call
            return getcurrent().parent.switch()
        self.flush()
        result, _ = self.shared.perform(call)
        if isinstance(result, Exception):
            raise result
        return result

    def resume(self, result: object) -> None:
        """Continue to the next call, with the result of the pending call."""
        self.pending = None
        assert self._greenlet is not None
        if isinstance(result, BaseException):
            self._greenlet.throw(result)
        else:
            self._greenlet.switch(result)

    def die(self) -> None:
        """End the process here; nothing after its last call happens."""
        self.dead = True
        self.pending = None
        self.late.clear()
        if self._greenlet is not None and not self._greenlet.dead:
            self._greenlet.throw(ProcessDied("killed"))

    def saw(self, access: Access, result: object) -> None:
        """Note a result that the process gets without a step."""
        if self.scheduled:
            self.beside.append(access)
            self.digest = hash((self.digest, result))

    def find_late(self, partition: str, key: bytes) -> bytes | None:
        """Return a value that the process has written and that is not visible to others yet."""
        return self.late.get((partition, key))

    def flush(self) -> None:
        """Make the late writes of the process visible to all processes."""
        for (partition, key), value in self.late.items():
            self.shared.write(partition, key, value)
        self.late.clear()


def written_on(day: int) -> datetime:
    """Return the time of writing of an object of a day."""
    return _EPOCH + timedelta(days=day)


class _ProcessClock(Clock):
    """A clock hours apart from those of other processes, and the same in every schedule."""

    def __init__(self, index: int, day: int) -> None:
        self._now = written_on(day) + timedelta(hours=index)

    def now(self) -> datetime:
        self._now += timedelta(microseconds=1)
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class _ProcessIds(IdSource):
    """Ids that count up and are unique to the process."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._last = 0

    def unique(self) -> str:
        self._last += 1
        return f"{self._index:04x}{self._last:028x}"

    def jitter(self) -> float:
        return 0.5
