"""A server of a system of Keep."""

import fcntl
import os
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from logging import INFO, WARNING, getLogger
from pathlib import Path
from socket import gethostname
from threading import Event, Thread
from typing import TYPE_CHECKING

from graveler.base.arguments import several
from graveler.base.clock import Clock, IdSource
from graveler.collections.systems import System
from graveler.errors import InvalidInputError, StateError
from graveler.keep.cache import BlockCache
from graveler.keep.client import KeepClient
from graveler.keep.locators import Locator
from graveler.keep.scrub import Scrub
from graveler.keep.store import BlockStore
from graveler.keep.transport import Server
from graveler.keep.volumes.folder import FolderVolume
from graveler.keep.volumes.sealed import SealedVolume
from graveler.keep.volumes.volume import Role, Volume
from graveler.keep.workers import Emptier, PullList, TrashList
from graveler.server.application import Application
from graveler.server.keep.surface import Keep, Terms
from graveler.server.server import Service, is_loopback
from graveler.server.tokens import TokenCheck, check_token, new_token

if TYPE_CHECKING:
    from graveler.lake import Lake

_LOW = 0.1
"""The share of a disk that must be free, or its trash is deleted."""
_OF_EXT4 = "lost+found"
"""What a new file system has."""
_EMPTIES_EVERY_S = 3600.0
_PATIENCE_S = 2.0
_SCRUBS_EVERY_S = 86_400.0
_log = getLogger(__name__)


class KeepServer(Service):
    """A server of blocks, while it is open.

    Args:
        system: The name of the system that it belongs to.
        folders: A folder for each volume. A new one must be empty.
        host: Address to listen at; without TLS one that only this machine reaches.
        tls: The files of a certificate and of its key.
        token: The token that clients show while the lake has no users; "" for a new one.
        role: What the volumes are for.
        buffers: Blocks of 64 MiB that memory may hold at once.
        verifies: Whether each read verifies the block, and not only a read that asks for it.
        compat: Whether answers are those of today's keepstore of Arvados where the design of 2014
            says something else.
        scrub_bytes: The bytes in a second that a scrub reads at most, which verifies all copies again and
            again, and mends damaged ones; 0 for no scrub.
        new_disks: Whether an empty folder that was a volume is the place of another disk.
        take_over: Whether volumes of systems of other lakes become this system's.

    Raises:
        StateError: A folder belongs to another system or another server, or its disk is not mounted.
        InvalidInputError: Other machines reach the address and there is no TLS, or a folder is no volume
            and not empty.
    """

    def __init__(
        self,
        lake: "Lake",
        system: str,
        folders: Sequence[Path],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: tuple[Path, Path] | None = None,
        token: str = "",
        role: Role | None = None,
        buffers: int = 8,
        verifies: bool = True,
        compat: bool = False,
        scrub_bytes: int = 0,
        new_disks: bool = False,
        take_over: bool = False,
    ) -> None:
        if tls is None and not is_loopback(host):
            raise InvalidInputError(
                f"host {host!r} is reached by other machines: give a certificate, because Keep "
                "encrypts what it sends (--tls-cert, --tls-key)"
            )
        settings = lake.keep.get(system)
        self.folders = [Path(folder) for folder in several(folders, "folders", "folders")]
        self._volumes: dict[str, Path] = {}
        self._new_disks = new_disks
        self._takes_over = take_over
        clock, ids = lake.keep.clock, lake.keep.ids
        self.token = check_token(token) if token else new_token()
        with ExitStack() as held:
            self.store = BlockStore(
                [
                    self._volume(lake, folder, settings, role or Role(), held)
                    for folder in self.folders
                ],
                ttl=int(settings.ttl.total_seconds()),
                trash_life=int(settings.trash_life.total_seconds()),
                clock=clock,
                buffers=buffers,
            )
            signer = settings.signer
            self.trash = TrashList(self.store)
            self._siblings = _Siblings(settings, clock, ids, tls=tls is not None)
            self.pulls = PullList(self.store, self._siblings.get)
            self.emptier = Emptier(self.store, _EMPTIES_EVERY_S, _LOW)
            terms = Terms(settings.token, lake.iam.access, signer, verifies, compat)
            self.surface = Keep(self.store, self.trash, self.pulls, terms)
            check = TokenCheck(self.token, lake.iam.access)
            super().__init__(Application(check, [self.surface]), host, port, _context(tls))
            self._held = held.pop_all()
        self._tls = tls is not None
        self.emptier.start()
        self._ended = Event()
        self._peers = lake.keep.client(system, cache=BlockCache(0))
        self._scrub = Scrub(self.store, scrub_bytes, fetch=self._fetched)
        if scrub_bytes:
            Thread(target=self._scrub_again, name="graveler-keep-scrub", daemon=True).start()

    @property
    def address(self) -> str:
        """The address of the server, ``http://host:port/`` or ``https://host:port/``."""
        return f"http{'s' if self._tls else ''}://{self.authority}/"

    def _volume(
        self, lake: "Lake", folder: Path, system: System, role: Role, held: ExitStack
    ) -> Volume:
        """Return the volume in a folder. A folder that is missing or empty becomes one, once."""
        systems, place = lake.keep, f"{gethostname()}:{folder.resolve()}"
        if not folder.exists() or all(each.name == _OF_EXT4 for each in folder.iterdir()):
            known = systems.volume_at(place)
            if known and not self._new_disks:
                raise StateError(
                    f"{folder} is empty, and was volume {known}: mount its disk; if the disk is lost, and "
                    "this is another one, say so (--new-disk, new_disks=True)"
                )
            FolderVolume.create(folder, ids=systems.ids)
        volume = FolderVolume(folder, role=role, clock=systems.clock, ids=systems.ids)
        held.callback(os.close, _held(folder))
        other = self._volumes.setdefault(volume.uuid, folder)
        if other != folder:
            raise StateError(
                f"{other} and {folder} are both volume {volume.uuid}: one is a copy of the other, so its "
                "blocks would count twice; give only one of them"
            )
        marked = "" if self._takes_over else volume.system
        systems.claim_volume(system, volume.uuid, place, marked=marked)
        volume.assign(system.id)
        return SealedVolume(volume, system.volume_keys) if system.volume_keys else volume

    def _fetched(self, locator: Locator) -> bytes:
        return self._peers.get(Locator(locator.digest, self._peers.head(locator)))

    def _scrub_again(self) -> None:
        while not self._ended.is_set():
            found = self._scrub.run()
            _log.log(WARNING if found.damaged else INFO, "scrub: %s", found)
            self._ended.wait(_SCRUBS_EVERY_S)

    def close(self, *, seconds: float | None = 8.0) -> bool:
        """Accept no new requests, and let active ones end; may be called again."""
        ended = super().close(seconds=seconds)
        self._ended.set()
        self._scrub.stop()
        self._peers.close()
        for worker in (self.trash, self.pulls, self.emptier):
            worker.close()
        self._siblings.close()
        self._held.close()
        return ended


class _Siblings:
    """The other servers of the system, of which this one fetches blocks. It signs for itself."""

    def __init__(self, system: System, clock: Clock, ids: IdSource, *, tls: bool) -> None:
        self._system = system
        self._clock = clock
        self._ids = ids
        self._scheme = "https" if tls else "http"
        self._clients: dict[str, KeepClient] = {}

    def get(self, locator: Locator, server: str) -> bytes:
        """Return a block of a server, ``host:port`` or its address."""
        url = server if "://" in server else f"{self._scheme}://{server}"
        client = self._clients.get(url)
        if client is None:
            client = self._clients[url] = KeepClient(
                lambda: [Server("", url)],
                self._system.token,
                clock=self._clock,
                ids=self._ids,
                cache=BlockCache(0),
                signer=self._system.signer,
                tls_ca=self._system.tls_ca,
                limit_s=_PATIENCE_S,
            )
        return client.get(locator)

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()


def _held(folder: Path) -> int:
    """Return a descriptor whose lock says that a server has the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StateError(f"another server has {folder}: its copies would count twice") from None
    return descriptor


def _context(tls: tuple[Path, Path] | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(*tls)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(f"certificate {tls[0]}, key {tls[1]}: {error}") from error
    return context
