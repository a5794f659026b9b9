"""Systems of Keep: the servers that share a signing key, and what all of them must agree on.

Partition ``keep:<name>``: key ``system`` has the settings, ``servers/<uuid>`` each server. So a server that
is added or replaced changes no repository.
"""

import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from urllib.parse import urlsplit

from graveler.base.arguments import count, duration, flag, text
from graveler.base.clock import Clock, IdSource
from graveler.base.records import HEX, Schema, mapping
from graveler.collections.collections import MOST_COPIES, Collections
from graveler.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StateError
from graveler.keep.cache import BlockCache
from graveler.keep.client import KeepClient
from graveler.keep.signatures import Signer
from graveler.keep.transport import Server, trusting
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.model import LONGEST_DURATION

NAME = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
TWO_WEEKS = timedelta(days=14)
_KEY = "system"
_SERVER = re.compile(r"[a-z0-9]{5}-bi6l4-[a-z0-9]{15}")
_SCHEMES = {"http": "http", "https": "https", "keep+tls": "https"}
_LEAST_TTL = timedelta(minutes=1)
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class System:
    """The settings of a system.

    Attributes:
        key: What signs locators.
        token: What the data manager and the servers show to each other.
        ttl: How long a block without a name is kept, and the life of every signature.
        trash_life: How long a deleted block can be brought back.
        replication: The copies of each block, unless a collection says otherwise.
        volume_keys: The keys of encrypted volumes by their ids; the last one encrypts.
        tls_ca: The certificates that sign those of the servers, as PEM; "" for those of each machine.
    """

    name: str
    key: bytes = field(repr=False)
    token: str = field(repr=False)
    ttl: timedelta = TWO_WEEKS
    trash_life: timedelta = TWO_WEEKS
    replication: int = 2
    volume_keys: dict[str, bytes] = field(default_factory=dict, repr=False)
    tls_ca: str = field(default="", repr=False)
    nonce: str = ""

    @property
    def id(self) -> str:
        """What tells the system from those of other lakes, also of its name. Folders of volumes have it."""
        return hmac.digest(self.key, b"graveler keep system", "sha256").hex()[:32]

    @property
    def signer(self) -> Signer:
        """What signs the locators of the system."""
        return Signer(self.key.hex().encode(), int(self.ttl.total_seconds()))


class ServerState(StrEnum):
    """Whether clients write to a server.

    Attributes:
        ACTIVE: They do.
        DRAINING: They only read. The data manager moves its blocks to other servers.
    """

    ACTIVE = "active"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class KeepServer:
    """A server of a system.

    Attributes:
        uuid: What placement is computed from. A replacement with the uuid of a lost server takes its place.
        url: ``http://host:port/`` or ``https://host:port/``.
    """

    uuid: str
    url: str
    state: ServerState = ServerState.ACTIVE
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class KnownVolume:
    """A volume that was served.

    Attributes:
        place: The name of its machine, and its folder there.
    """

    uuid: str
    system: str
    place: str


_VOLUME = Schema(KnownVolume, "volume of Keep", states_format=True)
_SYSTEM = Schema(
    System,
    "system of Keep",
    types={"volume_keys": mapping(HEX)},
    sparse=("volume_keys", "tls_ca"),
    states_format=True,
)
_SERVER_RECORD = Schema(KeepServer, "server of Keep", states_format=True)


class Systems:
    """The systems of a lake."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self.kv = kv
        self.clock = clock
        self.ids = ids
        self._volumes: RecordStore[KnownVolume] = RecordStore(
            kv, "keep", encode=_VOLUME.encode, decode=_VOLUME.decode
        )

    def create(
        self,
        name: str,
        *,
        ttl: timedelta = TWO_WEEKS,
        trash_life: timedelta = TWO_WEEKS,
        replication: int = 2,
        encrypted: bool = False,
        tls_ca: str = "",
    ) -> System:
        """Make a system with a key and a token of its own, and return it.

        Args:
            encrypted: Whether volumes encrypt their blocks. The key is with the settings.
            tls_ca: The certificates that sign those of the servers, as PEM, by default those that each
                machine trusts.

        Raises:
            AlreadyExistsError: The lake has a system of this name.
            InvalidInputError: A setting is out of bounds.
        """
        duration(ttl, "ttl")
        duration(trash_life, "trash_life")
        count(replication, "replication")
        if not _LEAST_TTL <= ttl <= LONGEST_DURATION or not trash_life.total_seconds() >= 0:
            raise InvalidInputError(
                f"ttl {ttl}, trash_life {trash_life}: give at least {_LEAST_TTL}, 0"
            )
        if not 1 <= replication <= MOST_COPIES:
            raise InvalidInputError(f"replication {replication}: give 1 to {MOST_COPIES} copies")
        made = System(
            check_name(name),
            secrets.token_bytes(_KEY_BYTES),
            f"keep{secrets.token_hex(_KEY_BYTES)}",
            ttl,
            trash_life,
            replication,
            _new_key() if flag(encrypted, "encrypted") else {},
            _certificates(tls_ca),
            nonce=self.ids.unique(),
        )
        if not self._settings(name).write(_KEY, made):
            raise AlreadyExistsError(f"the lake has a system {name!r} of Keep: choose another name")
        return made

    def rotate_key(self, name: str) -> System:
        """Give a system with encrypted volumes a new key for new blocks, and return it.

        Servers use it when they are started again, and their scrubs encrypt older blocks with it.

        Raises:
            InvalidInputError: The volumes of the system are not encrypted.
        """

        def rotated(system: System) -> System:
            if not system.volume_keys:
                raise InvalidInputError(
                    f"the volumes of {name!r} are not encrypted: make another system"
                )
            keys = system.volume_keys | _new_key(len(system.volume_keys) + 1)
            return replace(system, volume_keys=keys)

        return self._reset(name, rotated)

    def trust(self, name: str, tls_ca: str) -> System:
        """Let all that reaches the servers of a system verify them by these certificates.

        Servers and open lakes use them when they are started again.

        Args:
            tls_ca: Certificates as PEM; "" for those that each machine trusts.
        """
        pem = _certificates(tls_ca)
        return self._reset(name, lambda system: replace(system, tls_ca=pem))

    def get(self, name: str) -> System:
        """Return a system, or raise NotFoundError."""
        found = self._settings(check_name(name)).get(_KEY)
        if found is None:
            raise NotFoundError(
                f"the lake has no system {name!r} of Keep: make it with `graveler keep create {name}`"
            )
        return found

    def add_server(self, name: str, url: str, uuid: str = "") -> KeepServer:
        """Add a server, or give the server of `uuid` another address, and return it."""
        self.get(name)
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        scheme = _SCHEMES.get(parts.scheme)
        if scheme is None or not parts.netloc or parts.path not in {"", "/"}:
            raise InvalidInputError(f"url {url!r}: give http://host:port/ or https://host:port/")
        uuid = uuid or f"grave-bi6l4-{self.ids.unique()[-15:]}"
        if not _SERVER.fullmatch(uuid):
            raise InvalidInputError(
                f"uuid {uuid!r}: give 5 characters, -bi6l4-, and 15 of a-z, 0-9"
            )
        address = f"{scheme}://{parts.netloc}/"
        Server(uuid, address)
        for other in self.servers(name):
            if other.url == address and other.uuid != uuid:
                raise AlreadyExistsError(
                    f"{address} is server {other.uuid} already: give that uuid, or remove that server"
                )

        def moved(server: KeepServer | None) -> KeepServer:
            state = ServerState.ACTIVE if server is None else server.state
            return KeepServer(uuid, address, state, nonce=self.ids.unique())

        return self._change(name, uuid, moved)

    def drain_server(self, name: str, uuid: str) -> KeepServer:
        """Let clients write to a server no more, so that its blocks move to others, and return it."""

        def draining(server: KeepServer | None) -> KeepServer:
            if server is None:
                raise _no_server(name, uuid)
            return replace(server, state=ServerState.DRAINING, nonce=self.ids.unique())

        return self._change(name, uuid, draining)

    def remove_server(self, name: str, uuid: str) -> None:
        """Forget a server, whether or not it has blocks."""
        servers = self._servers(name)
        if servers.get(uuid) is None:
            raise _no_server(name, uuid)
        while (found := servers.find(uuid)) is not None and not servers.remove(
            uuid, found.predicate
        ):
            pass

    def servers(self, name: str) -> Sequence[KeepServer]:
        """Return the servers of a system, sorted by uuid."""
        return [server for _, server in self._servers(name).scan()]

    def collections(self, name: str) -> Collections:
        """Return the collections of a system."""
        ttl = self.get(name).ttl
        return Collections(self.kv, name, ttl, clock=self.clock, ids=self.ids)

    def client(self, name: str, token: str = "", *, cache: BlockCache | None = None) -> KeepClient:
        """Return a client of a system, which always knows its present servers.

        Args:
            token: The token of a user; "" for the system's own, which signs what it reads.
        """
        system = self.get(name)
        return KeepClient(
            lambda: [
                Server(each.uuid, each.url, read_only=each.state is ServerState.DRAINING)
                for each in self.servers(name)
            ],
            token or system.token,
            clock=self.clock,
            ids=self.ids,
            replication=system.replication,
            cache=cache,
            signer=None if token else system.signer,
            tls_ca=system.tls_ca,
        )

    def claim_volume(self, system: System, uuid: str, place: str, *, marked: str = "") -> None:
        """Note that a volume belongs to a system, and where it is.

        Args:
            marked: The id of the system that its folder names, or "".

        Raises:
            StateError: It belongs to another system.
        """

        def claimed(found: KnownVolume | None) -> KnownVolume:
            if found is not None and found.system != system.name:
                raise StateError(
                    f"{place} is a volume of the system {found.system!r}: a sweep of {system.name!r} would "
                    "trash its blocks; give another folder"
                )
            if marked not in {"", system.id}:
                raise StateError(
                    f"{place} is a volume of the system {marked} of another lake, and {system.name!r} of "
                    f"this one is {system.id}: a sweep would trash its blocks; give another folder, or, if "
                    "the key-value store of that lake is lost, take the folder over (--take-over, take_over=True)"
                )
            return KnownVolume(uuid, system.name, place)

        for key in (f"uuids/{uuid}", f"places/{place}"):
            self._volumes.update(
                key, claimed, what=f"volume {uuid}", clock=self.clock, ids=self.ids
            )

    def volume_at(self, place: str) -> str:
        """Return the UUID of the volume that was at a place, or ""."""
        found = self._volumes.get(f"places/{place}")
        return "" if found is None else found.uuid

    def _reset(self, name: str, change: Callable[[System], System]) -> System:
        """Change the settings of a system, and return them."""

        def changed(found: System | None) -> System:
            return replace(change(found or self.get(name)), nonce=self.ids.unique())

        return self._settings(check_name(name)).update(
            _KEY, changed, what=f"system {name!r}", clock=self.clock, ids=self.ids
        )

    def _change(
        self, name: str, uuid: str, change: Callable[[KeepServer | None], KeepServer]
    ) -> KeepServer:
        return self._servers(name).update(
            uuid, change, what=f"server {uuid} of Keep", clock=self.clock, ids=self.ids
        )

    def _settings(self, name: str) -> RecordStore[System]:
        return RecordStore(self.kv, f"keep:{name}", encode=_SYSTEM.encode, decode=_SYSTEM.decode)

    def _servers(self, name: str) -> RecordStore[KeepServer]:
        return RecordStore(
            self.kv,
            f"keep:{name}",
            prefix=b"servers/",
            encode=_SERVER_RECORD.encode,
            decode=_SERVER_RECORD.decode,
        )


def check_name(name: str) -> str:
    """Return the name of a system if it can be one."""
    if not NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name!r} cannot name a system of Keep: give 3 to 63 of a-z, 0-9 and -"
        )
    return name


def _certificates(tls_ca: str) -> str:
    if text(tls_ca, "tls_ca", empty=True):
        trusting(tls_ca)
    return tls_ca


def _new_key(number: int = 1) -> dict[str, bytes]:
    return {f"{number:08}": secrets.token_bytes(_KEY_BYTES)}


def _no_server(name: str, uuid: str) -> NotFoundError:
    return NotFoundError(
        f"the system {name!r} has no server {uuid!r}: `graveler keep servers list {name}` shows them"
    )
