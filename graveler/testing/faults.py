"""What a call to a store can meet, and stores whose calls are observed."""

# The ports document the methods of the stores.
# ruff: noqa: D102

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, NoReturn, TypeVar

from graveler.errors import BackendUnavailableError, OutcomeUnknownError
from graveler.kv.store import KVStore, KVWrapper, P
from graveler.objects.store import ObjectInfo, ObjectStore, ObjectsWrapper

Action = Callable[[str], object]
"""Called with the name of the struck call; may raise, or act as another process."""

Moment = Literal["before", "after"]
"""Before or after the effect of the call."""

T = TypeVar("T")
R = TypeVar("R")
_CONDITIONAL = frozenset({"set_if", "delete_if"})


class ProcessDied(BaseException):
    """The process has ended; nothing after the call happens."""


def unavailable(call: str) -> NoReturn:
    """Fail like a backend that does not reply."""
    raise BackendUnavailableError(f"{call}: no answer (a fault made by a test)")


def lost_reply(call: str) -> NoReturn:
    """Fail like a backend whose reply is lost."""
    if call in _CONDITIONAL:
        raise OutcomeUnknownError(f"{call}: the reply was lost (a fault made by a test)")
    unavailable(call)


def _begun(items: Iterator[T], around: AbstractContextManager[None]) -> Iterator[T]:
    """Yield the items. The call is over when the first one was read; the rest may be lost."""
    with around:
        first = next(items, None)
    if first is not None:
        yield first
        yield from items


class ObservedKV(KVWrapper, ABC):
    """A key-value store whose calls a subclass surrounds. What the port makes of others is so made."""

    turn = KVStore.turn
    delete_many = KVStore.delete_many
    scan_all = KVStore.scan_all
    scan_below = KVStore.scan_below

    @abstractmethod
    def around(self, name: str, *args: Any) -> AbstractContextManager[None]:
        """Return the context in which a call happens."""

    def _forward(self, call: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        with self.around(call.__name__, *args):
            return call(*args, **named)

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return _begun(self._store.scan(partition, start), self.around("scan", partition, start))


class ObservedObjects(ObjectsWrapper, ABC):
    """An object store whose calls a subclass surrounds. What the port makes of others is so made."""

    local_file = ObjectStore.local_file
    put_all_if_absent = ObjectStore.put_all_if_absent
    level = ObjectStore.level

    @abstractmethod
    def around(self, name: str, key: str) -> AbstractContextManager[None]:
        """Return the context in which a call happens."""

    def _forward(self, call: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        with self.around(call.__name__, str(args[0])):
            return call(*args, **named)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return _begun(self._store.list(prefix, after=after), self.around("list", prefix))
