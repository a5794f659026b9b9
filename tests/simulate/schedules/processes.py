"""A simulated process: a greenlet that stops before each call of a store.

What it is given back is all that it can know: so its state is its program and the results
it has seen, of which a digest is kept.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import get_ident

from greenlet import getcurrent, greenlet

from graveler.clock import Clock, IdSource
from graveler.testing.faults import ProcessDied
from tests.simulate.history import History, Operation
from tests.simulate.scenarios.shared import Access, Call, Shared

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Process:
    """One process over the shared stores.

    Attributes:
        name: As schedules name it.
        pending: The call it stands before; None where it has ended.
        begins: The operation whose first call comes next.
        ended: The operation that ended since the last call.
        late: Writes that no process can miss before this one's next call: objects and commit
            records, which are named by their content. They become visible at the last moment.
        digest: Of all it has seen.
        beside: What it touched since its last call without a step: by a thread, which the next call
            waits for, or by a look whether an object is there.
        day: Its calendar begins then; and what objects say of the time they were written.
        scheduled: Whether its calls wait for a scheduler; else they are made at once.
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
            except Exception as error:  # noqa: BLE001 - the runner of the schedule judges it
                self.failure = error

        self._greenlet = greenlet(body)
        self._greenlet.switch()

    def call(self, call: Call) -> object:
        """Make a call when the scheduler says so; return or raise what it gives."""
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
        """Go on to the next call with what the pending one gave."""
        self.pending = None
        assert self._greenlet is not None
        if isinstance(result, BaseException):
            self._greenlet.throw(result)
        else:
            self._greenlet.switch(result)

    def die(self) -> None:
        """End here; what comes after the last call never happens."""
        self.dead = True
        self.pending = None
        self.late.clear()
        if self._greenlet is not None and not self._greenlet.dead:
            self._greenlet.throw(ProcessDied("killed"))

    def saw(self, access: Access, result: object) -> None:
        """Note what the process learned without a step of its own."""
        if self.scheduled:
            self.beside.append(access)
            self.digest = hash((self.digest, result))

    def find_late(self, partition: str, key: bytes) -> bytes | None:
        """Return what the process itself has written there, though others cannot see it yet."""
        return self.late.get((partition, key))

    def flush(self) -> None:
        """Let everybody see what the process wrote."""
        for (partition, key), value in self.late.items():
            self.shared.write(partition, key, value)
        self.late.clear()


def written_on(day: int) -> datetime:
    """Return the time that things of a day were written."""
    return _EPOCH + timedelta(days=day)


class _ProcessClock(Clock):
    """Hours apart from the other processes, and the same in every schedule."""

    def __init__(self, index: int, day: int) -> None:
        self._now = written_on(day) + timedelta(hours=index)

    def now(self) -> datetime:
        self._now += timedelta(microseconds=1)
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class _ProcessIds(IdSource):
    """Ids that count, and are the process's own."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._last = 0

    def unique(self) -> str:
        self._last += 1
        return f"{self._index:04x}{self._last:028x}"

    def jitter(self) -> float:
        return 0.5
