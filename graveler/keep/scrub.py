"""The scrub: every copy is read and verified again and again, slowly."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event

from graveler.errors import CorruptionError, GravelerError, ObjectNotFoundError, ReadOnlyError
from graveler.keep.locators import BLOCK_BYTES, Locator
from graveler.keep.store import BlockStore
from graveler.keep.transfers import digest_of
from graveler.keep.volumes.volume import Stored, Volume

_log = logging.getLogger(__name__)
_NOTED_BYTES = 1 << 30
_NOTED_BLOCKS = 1000


@dataclass(slots=True)
class Scrubbed:
    """What a scrub found.

    Attributes:
        rewritten: Right copies that were written again, with the newest key.
        errors: Copies that could not be read or written, which may be right.
        lost: The digests of damaged copies for which no server had a right one.
    """

    verified: int = 0
    bytes: int = 0
    damaged: int = 0
    healed: int = 0
    rewritten: int = 0
    errors: int = 0
    lost: list[str] = field(default_factory=list)


class Scrub:
    """Verifies the copies of all volumes; sets damaged ones aside, and writes right ones instead.

    It continues where it stopped, also in another process.

    Args:
        rate: The bytes that it reads in a second at most; 0 for no limit.
        fetch: Returns the bytes of a block, of which the size is not known, from another server, or raises.
    """

    def __init__(
        self, store: BlockStore, rate: int, *, fetch: Callable[[Locator], bytes] | None = None
    ) -> None:
        self._store = store
        self._rate = rate
        self._fetch = fetch
        self._end = Event()

    def run(self) -> Scrubbed:
        """Return what was found on the rest of each volume, or until `stop`."""
        found = Scrubbed()
        for volume in self._store.volumes.values():
            try:
                self._walk(volume, found)
            except GravelerError as error:
                found.errors += 1
                _log.warning("the scrub of volume %s ended: %s", volume.uuid, error)
        return found

    def stop(self) -> None:
        """End after the current copy."""
        self._end.set()

    def _walk(self, volume: Volume, found: Scrubbed) -> None:
        last, noted = volume.bookmark(), (found.verified, found.bytes)
        for stored in volume.index(after=last):
            if self._end.is_set():
                break
            self._check(volume, stored, found)
            last = stored.digest
            blocks, size = found.verified - noted[0], found.bytes - noted[1]
            if blocks >= _NOTED_BLOCKS or size >= _NOTED_BYTES:
                noted = found.verified, found.bytes
                _note(volume, last)
        else:
            last = ""
        _note(volume, last)

    def _check(self, volume: Volume, stored: Stored, found: Scrubbed) -> None:
        digest, mtime_ns = stored.digest, stored.mtime_ns
        try:
            with volume.open(digest) as opened:
                mtime_ns = opened.mtime_ns
                right = digest_of(opened.file, self._pause) == digest
        except ObjectNotFoundError:
            return  # trashed meanwhile
        except CorruptionError:
            right = False
        except GravelerError as error:
            found.errors += 1
            _log.warning("block %s of volume %s: %s", digest, volume.uuid, error)
            return
        found.verified += 1
        found.bytes += stored.size
        try:
            if not right:
                self._mend(volume, stored, mtime_ns, found)
            elif volume.is_outdated(digest) and not volume.read_only:
                self._store.rewrite(volume, digest)
                found.rewritten += 1
        except GravelerError as error:
            found.errors += 1
            _log.warning("block %s of volume %s: %s", digest, volume.uuid, error)

    def _mend(self, volume: Volume, stored: Stored, mtime_ns: int, found: Scrubbed) -> None:
        found.damaged += 1
        if not self._store.set_aside(volume, stored.digest, mtime_ns):
            return
        try:
            with self._store.get(Locator(stored.digest, None)) as block:
                self._store.heal(volume, stored.digest, block.content or b"")
        except (ObjectNotFoundError, CorruptionError):
            if not self._heal_from_afar(volume, stored):
                found.lost.append(stored.digest)
                return
        found.healed += 1

    def _heal_from_afar(self, volume: Volume, stored: Stored) -> bool:
        if self._fetch is None:
            return False
        locator = Locator(stored.digest, None)  # a damaged copy may have another size
        with self._store.buffers.reserve(BLOCK_BYTES, patient=True):
            try:
                content = self._fetch(locator)
            except (GravelerError, OSError) as error:
                _log.warning("block %s from another server: %s", stored.digest, error)
                return False
            if Locator.of(content).digest != stored.digest:
                return False
            self._store.heal(volume, stored.digest, content)
        return True

    def _pause(self, size: int) -> None:
        if self._rate:
            self._store.clock.sleep(size / self._rate)


def _note(volume: Volume, digest: str) -> None:
    with suppress(ReadOnlyError):
        if not volume.read_only:
            volume.set_bookmark(digest)
