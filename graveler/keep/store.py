"""The block store of a server: its volumes taken together.

Blocks are verified when they are written and when they are read. A damaged copy is set aside and
counted, and a right one takes its place. What a caller gets back as written is on disk, and keeps
its time to live from then on.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from graveler.base.background import Threads
from graveler.base.clock import Clock
from graveler.base.parallel import Bounds, in_order
from graveler.errors import (
    BackendUnavailableError,
    ConflictError,
    CorruptionError,
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    StateError,
    StorageFullError,
    ThrottledError,
)
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.placement import volumes_for
from graveler.keep.transfers import (
    LARGE_BYTES,
    Ahead,
    Block,
    Body,
    Buffers,
    TooLargeError,
    is_same,
    lacking,
    read_hashed,
    receive,
)
from graveler.keep.volumes.volume import (
    DEFAULT_CLASS,
    Trashed,
    Volume,
    check_digest,
)

_WAIT_S = 15.0
_LOCKS = 256
_TRIES = 3
_TOUCHERS = 8
_T = TypeVar("_T")


class Put(NamedTuple):
    """A written block.

    Attributes:
        replicas: The sum of the replications of the volumes that have it.
        classes: The same sum for each of their storage classes.
        volumes: The UUIDs of these volumes.
    """

    locator: Locator
    replicas: int
    classes: Mapping[str, int]
    volumes: Sequence[str]


class Deleted(NamedTuple):
    """What a deletion did with the copies."""

    copies_deleted: int
    copies_not_deleted: int


class BlockStore:
    """Blocks on the volumes of a server. Threads may share it; a process has one.

    Args:
        ttl: Seconds for which a block is kept after it was written or touched.
        trash_life: Seconds for which a trashed block can be restored.
        buffers: Blocks of 64 MiB that memory may hold at once.
        priorities: The storage classes whose volumes are tried first; others have 0.
        wait_s: Seconds after which a request that waits for a buffer is refused.
    """

    def __init__(
        self,
        volumes: Sequence[Volume],
        *,
        ttl: int,
        trash_life: int,
        clock: Clock,
        buffers: int = 8,
        priorities: Mapping[str, int] = {},
        wait_s: float = _WAIT_S,
    ) -> None:
        for names in zip(*((each.uuid, f"device {each.device}") for each in volumes), strict=True):
            name, count = Counter(names).most_common(1)[0]
            if count > 1:
                raise InvalidInputError(f"{count} volumes are {name}: give it once")
        self.volumes = {volume.uuid: volume for volume in volumes}
        self.ttl = ttl
        self.trash_life = trash_life
        self.clock = clock
        self.buffers = Buffers(buffers, wait_s)
        self._priorities = priorities
        self._turns = [Lock() for _ in range(_LOCKS)]
        self._counts: dict[str, Counter[str]] = {uuid: Counter() for uuid in self.volumes}
        self._counting = Lock()

    def put(
        self, digest: str, body: Body, size: int | None, *, classes: Collection[str] = ()
    ) -> Put:
        """Keep a block on a volume of each storage class, or of as many of them as can take it.

        Args:
            size: The size of the body, if it is known.

        Raises:
            InvalidInputError: The body has another digest or size. TooLargeError: it has more than
                64 MiB.
            ConflictError: There is a block with the same digest and other bytes.
            StorageFullError: All volumes are full, or none of these classes can be written.
        """
        check_digest(digest)
        if size is not None and size > BLOCK_BYTES:
            raise TooLargeError(f"the body has {size} bytes, more than {BLOCK_BYTES}: cut it")
        wanted = self._wanted(classes)
        room = BLOCK_BYTES if size is None else size
        with self.buffers.take(room) as buffer, self._ahead(digest, size, wanted) as ahead:
            pass_on = ahead.write if ahead else lambda _: None
            content, found = receive(body, buffer, size, pass_on)
            if found != digest:
                raise InvalidInputError(
                    f"the body has the MD5 {found}, not {digest}: send it again"
                )
            volumes = self._placed(digest, content, wanted, ahead)
            replicas: Counter[str] = Counter()
            for volume in volumes:
                replicas.update(dict.fromkeys(volume.classes, volume.replication))
            total = sum(volume.replication for volume in volumes)
            return Put(Locator(digest, len(content)), total, replicas, [v.uuid for v in volumes])

    def write(self, locator: Locator, content: bytes, volume: str = "") -> None:
        """Keep a block that was pulled, on a volume or on the first that can take it."""
        digest, view = locator.digest, memoryview(content)
        if Locator.of(content) != Locator(digest, locator.size or len(content)):
            raise CorruptionError(f"the bytes pulled are not those of block {locator.bare}")
        if not volume:
            self._placed(digest, view, frozenset(), None)
        elif self.volume(volume).read_only:
            raise StateError(f"volume {volume} is read-only: name another one")
        else:
            self._mend(digest, view, self.volume(volume), "written")

    def get(self, locator: Locator, *, verify: bool = True) -> Block:
        """Return a block: its verified content, or a file of the right size that was not verified.

        Raises:
            CorruptionError: All copies are damaged.
        """
        digest = locator.digest
        if digest == EMPTY.digest:
            return Block(0, memoryview(b""), None, lambda: None)
        failure: GravelerError = lacking(locator)
        damaged: list[Volume] = []
        read = partial(self._read, locator, verify)
        for volume, result in self._each(read, self._order(digest)):
            if isinstance(result, Block):
                self._count(volume, "read")
                if result.content is not None:
                    self._heal(digest, result.content, damaged)
                return result
            failure = result
            if isinstance(failure, ThrottledError):
                break
            if isinstance(failure, CorruptionError):
                damaged.append(volume)
        if isinstance(failure, ObjectNotFoundError):
            failure = lacking(locator, self.volumes.values())
        raise failure

    def size(self, locator: Locator, *, verify: bool = False) -> int:
        """Return the size of a block that is there."""
        if locator.digest == EMPTY.digest:
            return 0
        if not verify:
            for volume in self._order(locator.digest):
                with suppress(GravelerError):
                    size = volume.status(locator.digest).size
                    if locator.size in {None, size}:
                        return size
        with self.get(locator) as block:
            return block.size

    def touch(self, digest: str) -> None:
        """Set the time of a copy to now, so that the block is kept for the time to live."""
        if digest == EMPTY.digest:
            return
        failure: GravelerError = lacking(Locator(digest, None))
        with self._turn(digest):
            for volume, result in self._each(
                lambda each: each.touch(digest), self._writable(digest)
            ):
                if result is None:
                    self._count(volume, "touched")
                    return
                failure = result
        raise failure

    def have(self, digests: Iterable[str], *, touch: bool) -> list[str]:
        """Return the missing blocks. With `touch`, the others are kept for the time to live."""
        lasting = [volume for volume in self.volumes.values() if not volume.may_trash]

        def check(digest: str) -> str:
            with suppress(ObjectNotFoundError):
                if not touch:
                    self.size(Locator(digest, None))
                elif not self._is_on(lasting, digest):
                    self.touch(digest)
                return ""
            return digest

        bounds: Bounds[str] = Bounds(_TOUCHERS if touch else 1, _LOCKS, lambda _: 0)
        return list(filter(None, in_order(check, map(check_digest, digests), bounds)))

    def delete(self, digest: str) -> Deleted:
        """Trash all copies of a block that are older than the time to live.

        Raises:
            StateError: All copies are younger.
        """
        found = self.trash(digest)
        done, recent = found.pop(Trashed.DONE, 0), found.get(Trashed.RECENT, 0)
        if not done and recent:
            raise StateError(f"block {digest} is younger than {self.ttl} s: delete it later")
        if not (done or found):
            raise lacking(Locator(digest, None))
        return Deleted(done, found.total())

    def trash(self, digest: str, mtime_ns: int | None = None, volume: str = "") -> Counter[str]:
        """Trash the copies older than the time to live, and return how many were, or why not.

        Args:
            mtime_ns: The time of the copies that are meant; `volume` is their volume, "" for all.
        """

        def attempt(each: Volume) -> Trashed | str:
            if each.may_trash:
                return each.trash(digest, self.ttl, self.trash_life, mtime_ns)
            each.status(digest)
            return "read-only"

        outcomes: Counter[str] = Counter()
        order = self._order(check_digest(digest))
        for each, result in self._each(attempt, [self.volume(volume)] if volume else order):
            outcomes[result.code if isinstance(result, GravelerError) else result] += 1
            if result is Trashed.DONE:
                self._count(each, "trashed")
        return Counter({str(outcome): count for outcome, count in outcomes.items()})

    def untrash(self, digest: str) -> list[str]:
        """Restore a trashed block, and return the volumes that had it. It is as if it were new."""
        restored: list[str] = []
        failure: GravelerError = lacking(Locator(digest, None))
        with self._turn(digest):
            for volume, result in self._each(
                lambda each: each.untrash(digest), self._writable(digest)
            ):
                if result is None:
                    restored.append(volume.uuid)
                    self._count(volume, "untrashed")
                else:
                    failure = result
        if not restored:
            raise failure
        return restored

    def index(self, prefix: str = "", volume: str = "") -> Iterator[str]:
        """Yield a line for each copy: its locator, and its time in ns."""
        for each in [self.volume(volume)] if volume else self.volumes.values():
            for stored in each.index(prefix):
                yield f"{stored.digest}+{stored.size} {stored.mtime_ns}"

    def mounts(self) -> list[dict[str, Any]]:
        """Return the volumes as JSON."""
        return [
            {
                "uuid": volume.uuid,
                "device_id": volume.device,
                "allow_write": not volume.read_only,
                "allow_trash": volume.may_trash,
                "replication": volume.replication,
                "storage_classes": dict.fromkeys(sorted(volume.classes), True),
            }
            for volume in self.volumes.values()
        ]

    def state(self) -> dict[str, Any]:
        """Return the space and the counters of the volumes, and the memory in use, as JSON."""
        volumes = []
        for mount, volume in zip(self.mounts(), self.volumes.values(), strict=True):
            try:
                disk: dict[str, Any] = volume.space()._asdict() | {"set_aside": volume.damaged()}
            except GravelerError as error:
                disk = {"error": str(error)}
            with self._counting:
                counters = dict(sorted(self._counts[volume.uuid].items()))
            volumes.append({**mount, **disk, "counters": counters})
        buffers = {"bytes": self.buffers.total, "in_use": self.buffers.taken}
        return {"volumes": volumes, "buffers": buffers}

    def close(self) -> None:
        """Do nothing: no file of a volume stays open."""

    def volume(self, uuid: str) -> Volume:
        """Return a volume, or raise ObjectNotFoundError."""
        if uuid not in self.volumes:
            raise ObjectNotFoundError(f"no volume {uuid!r}: {', '.join(self.volumes)} are there")
        return self.volumes[uuid]

    def set_aside(self, volume: Volume, digest: str, mtime_ns: int) -> bool:
        """Set a damaged copy aside, and count it. Return whether its place is free."""
        self._count(volume, "damaged")
        with suppress(ObjectNotFoundError):
            return not volume.read_only and volume.set_aside(digest, mtime_ns)
        return True

    def heal(self, volume: Volume, digest: str, content: bytes | memoryview) -> None:
        """Write a verified block to a volume that had a damaged copy."""
        self._mend(digest, memoryview(content), volume, "healed")

    def rewrite(self, volume: Volume, digest: str) -> None:
        """Write a block again where it is."""
        with self.get(Locator(digest, None)) as block, self._turn(digest):
            volume.put(digest, block.content or b"")
            self._count(volume, "rewritten")

    def _order(self, digest: str) -> list[Volume]:
        """Return the volumes in the order in which they are tried."""
        order = [self.volumes[uuid] for uuid in volumes_for(digest, self.volumes)]
        return sorted(order, key=self._priority, reverse=True)

    def _writable(self, digest: str) -> list[Volume]:
        return [volume for volume in self._order(digest) if not volume.read_only]

    def _priority(self, volume: Volume) -> int:
        return max((self._priorities.get(name, 0) for name in volume.classes), default=0)

    def _each(
        self, call: Callable[[Volume], _T], volumes: Iterable[Volume]
    ) -> Iterator[tuple[Volume, _T | GravelerError]]:
        """Call with each volume, and yield the result or the error of those that have the block."""
        for volume in volumes:
            try:
                yield volume, call(volume)
            except ObjectNotFoundError:
                continue
            except GravelerError as error:
                self._count(volume, "errors")
                yield volume, error

    def _wanted(self, classes: Collection[str]) -> frozenset[str]:
        """Return the classes that a block is for; none means any volume."""
        there = {
            name for each in self.volumes.values() if not each.read_only for name in each.classes
        }
        return frozenset(classes) or frozenset({DEFAULT_CLASS} & there)

    def _placed(
        self, digest: str, content: memoryview, wanted: frozenset[str], ahead: Ahead | None
    ) -> list[Volume]:
        """Return volumes that have a block: those that had it, and then those that took it."""
        found: list[Volume] = []
        failures: list[GravelerError] = []
        with self._turn(digest):
            for place in (self._kept, self._written):
                failures.clear()
                attempt = partial(place, digest, content, ahead)
                lacking = (each for each in self._writable(digest) if _lacks(found, wanted, each))
                for volume, result in self._each(attempt, lacking):
                    if isinstance(result, ConflictError):
                        raise result
                    if isinstance(result, GravelerError):
                        failures.append(result)
                    elif result:
                        found.append(volume)
        if not found:
            full = all(isinstance(failure, StorageFullError) for failure in failures)
            reasons = "; ".join(map(str, failures)) or "no volume of these classes can be written"
            kind = StorageFullError if full else BackendUnavailableError
            raise kind(f"block {digest} was not written: {reasons}")
        return found

    def _kept(self, digest: str, content: memoryview, _ahead: Ahead | None, volume: Volume) -> bool:
        """Return whether a volume has a block. It is compared and touched; a damaged one is set aside."""
        if digest == EMPTY.digest:
            return True
        with suppress(ObjectNotFoundError):
            for _ in range(_TRIES):
                mtime_ns = volume.status(digest).mtime_ns
                if is_same(volume, digest, content):
                    volume.touch(digest)
                    self._count(volume, "touched")
                    return True
                if self.set_aside(volume, digest, mtime_ns):
                    return False
        return False

    def _mend(self, digest: str, content: memoryview, volume: Volume, what: str) -> None:
        with self._turn(digest):
            if not self._kept(digest, content, None, volume):
                volume.put(digest, content)
                self._count(volume, what)

    def _written(
        self, digest: str, content: memoryview, ahead: Ahead | None, volume: Volume
    ) -> bool:
        if ahead is not None and ahead.volume is volume:
            ahead.commit()
        else:
            volume.put(digest, content)
        self._count(volume, "written")
        return True

    @contextmanager
    def _ahead(
        self, digest: str, size: int | None, wanted: frozenset[str]
    ) -> Iterator[Ahead | None]:
        """Begin to write a large block where it will probably go, if no volume has it yet."""
        with ExitStack() as stack:
            ahead = None
            if (
                size is not None
                and size >= LARGE_BYTES
                and not self._is_on(self.volumes.values(), digest)
            ):
                for volume in self._writable(digest):
                    if not _lacks([], wanted, volume):
                        continue
                    with suppress(GravelerError):
                        writer = stack.enter_context(volume.writer(digest))
                        thread = stack.enter_context(Threads(1, "graveler-keep-write"))
                        ahead = Ahead(volume, writer, thread)
                        break
            yield ahead

    @staticmethod
    def _is_on(volumes: Iterable[Volume], digest: str) -> bool:
        for volume in volumes:
            with suppress(GravelerError):
                volume.status(digest)
                return True
        return False

    def _read(self, locator: Locator, verify: bool, volume: Volume) -> Block:
        """Return the block of a volume. A damaged copy is set aside, and raises CorruptionError."""
        digest = locator.digest
        opened = None
        with ExitStack() as stack:
            try:
                opened = stack.enter_context(volume.open(digest))
                if not verify and locator.size in {None, opened.size}:
                    return Block(opened.size, None, opened.file, stack.pop_all().close)
                content = stack.enter_context(self.buffers.take(min(opened.size, BLOCK_BYTES)))
                if opened.size > BLOCK_BYTES or read_hashed(opened.file, content) != digest:
                    raise CorruptionError(f"block {digest} of volume {volume.uuid} is damaged")
            except CorruptionError:
                mtime_ns = volume.status(digest).mtime_ns if opened is None else opened.mtime_ns
                self.set_aside(volume, digest, mtime_ns)
                raise
            if locator.size not in {None, opened.size}:
                raise lacking(locator)
            opened.file.close()
            return Block(opened.size, content, None, stack.pop_all().close)

    def _heal(self, digest: str, content: memoryview, damaged: list[Volume]) -> None:
        for volume in damaged:
            if not volume.read_only:
                with suppress(GravelerError):  # a scrub does it again
                    self.heal(volume, digest, content)

    def _turn(self, digest: str) -> Lock:
        """Return the lock of a block. Without it, of two blocks with one digest the last would win."""
        return self._turns[int(check_digest(digest)[:2], 16)]

    def _count(self, volume: Volume, what: str) -> None:
        with self._counting:
            self._counts[volume.uuid][what] += 1


def _lacks(found: list[Volume], wanted: frozenset[str], volume: Volume) -> bool:
    """Return whether a volume is another one, with a class that a block still needs."""
    if not wanted or volume in found:
        return not found
    return not volume.classes.isdisjoint(wanted.difference(*(each.classes for each in found)))
