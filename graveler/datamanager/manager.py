"""The data manager of a system: what needs blocks, the servers, sweeps and what they confirm."""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from graveler.base.records import Schema
from graveler.base.retries import NO_PROGRESS_S
from graveler.collections.collections import Collection, Collections
from graveler.collections.objects import Named, gone_of, names_of
from graveler.collections.systems import ServerState
from graveler.datamanager.balance import Category
from graveler.datamanager.blocks import Source
from graveler.datamanager.indexes import keys
from graveler.datamanager.plan import Plan
from graveler.datamanager.sweep import Receipt, Roots, Sweep
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    GravelerError,
    NotFoundError,
    ObjectNotFoundError,
    OlderFormatError,
    PermissionDeniedError,
    StateError,
)
from graveler.keep.client import KeepClient
from graveler.keep.files import BlockList, list_block
from graveler.keep.locators import Locator
from graveler.keep.manifests import Manifest
from graveler.keep.transport import Answer, Request, Server, Transport
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.lake import Lake

T = TypeVar("T")
_SWEEPS = b"sweeps/"
_LAST = "last"
_TURN = "turn"
_MOST_UNTRASHED = 10_000
_LONGEST = timedelta(hours=1)
_log = logging.getLogger(__name__)
_RECEIPT = Schema(Receipt, "receipt of a sweep", sparse=("untrashed",), states_format=True)
_OK = 200
_NO_RIGHT = frozenset({401, 403})
_INDEX_BYTES = 1 << 36
_DOCUMENT_BYTES = 16 << 20


@dataclass(frozen=True)
class SystemRoots(Roots):
    """The roots of one system.

    A block that is named while they are read was written or touched a moment before, so it is too
    young to be trashed, also if its root is not seen.
    """

    kv: KVStore
    system: str
    collections: Collections
    client: KeepClient
    unreadable: list[str] = field(default_factory=list)

    def read(self) -> tuple[datetime, Iterable[Source]]:
        """Return the time, and the sources of all roots."""
        return self.collections.clock.now(), self._sources(None)

    def newer(self, generation: datetime) -> Iterable[Source]:
        """Return the sources of roots since a time."""
        return self._sources(generation)

    def _sources(self, since: datetime | None) -> Iterator[Source]:
        yield from self._objects(since)
        gone = [each for _, each in gone_of(self.kv, self.system).scan()]
        ends = self.collections.clock.now() - self.collections.ttl
        kept = {block for each in gone if each.mtime > ends for block in self._blocks(each)}
        if kept:
            yield Source("deleted objects", "deleted objects", keys(kept))
        for each in self.collections.needed():
            if since is None or each.modified >= since:
                yield from self._collection(each)

    def _objects(self, since: datetime | None) -> Iterator[Source]:
        """Yield a source for each storage, whose objects come one after another."""
        root, blocks = "", set[Locator]()
        for raw, named in names_of(self.kv, self.system).scan():
            place = raw.decode("utf-8", "replace").partition("/")[0]
            if place != root and blocks:
                yield self._storage(root, blocks)
                blocks = set()
            root = place
            if since is None or named.mtime >= since:
                blocks.update(self._blocks(named))
        if blocks:
            yield self._storage(root, blocks)

    def _storage(self, root: str, blocks: Iterable[Locator]) -> Source:
        name = f"keep://{self.system}/{root}"
        return Source(name, name, keys(blocks))

    def _blocks(self, named: Named) -> Iterator[Locator]:
        held = list_block(named.blocks)
        if held is not None:
            yield held
        try:
            runs = BlockList.load(self.client, named.blocks).runs
        except (ObjectNotFoundError, CorruptionError) as error:
            self.unreadable.append(f"a list of blocks cannot be read: {error}")
            return
        for run in runs:
            yield Locator(run.locator.digest, run.locator.size)

    @property
    def doubt(self) -> str:
        """The first list of blocks that cannot be read."""
        return next(iter(self.unreadable), "")

    def _collection(self, collection: Collection) -> Iterator[Source]:
        try:
            manifest = Manifest.parse(self.collections.manifest(collection))
        except NotFoundError as error:
            self.unreadable.append(f"a manifest cannot be read: {error}")
            return
        yield Source(
            collection.uuid,
            collection.owner or "no project",
            keys({Locator(each.digest, each.size) for each in manifest.blocks() if each.size}),
            collection.replicas or None,
            collection.classes or ("default",),
        )


class HttpServer:
    """A server, asked over HTTP with the token of its system."""

    def __init__(self, server: Server, transport: Transport) -> None:
        self._server = server
        self._transport = transport

    @property
    def uuid(self) -> str:
        """The UUID of the server."""
        return self._server.uuid

    @property
    def address(self) -> str:
        """Where other servers pull from."""
        return self._server.url

    def mounts(self) -> Sequence[Any]:
        """Return the volumes of the server."""
        found = self._document("/mounts")
        if not isinstance(found, list):
            raise self._other(found)
        return found

    def index(self, volume: str, prefix: str) -> Iterator[bytes]:
        """Yield the index of a volume as it comes."""
        request = Request("GET", f"/mounts/{volume}/blocks/{prefix}", most=_INDEX_BYTES)
        with self._transport.stream(self._server, request) as (answer, pieces):
            refusal = b"" if answer.status == _OK else next(pieces, b"")
            _check(request, answer._replace(body=refusal))
            yield from pieces

    def clear(self) -> None:
        """Replace the lists by empty ones."""
        self.send_pulls([])
        self.send_trash([])

    def send_pulls(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Replace the pull list."""
        self._sent("PUT", "/pull", json.dumps(list(items)).encode())

    def send_trash(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Replace the trash list."""
        self._sent("PUT", "/trash", json.dumps(list(items)).encode())

    def receipts(self) -> Mapping[str, Any]:
        """Return what became of the last lists."""
        found = self._document("/state.json")
        if not isinstance(found, dict) or not isinstance(found.get("lists"), dict):
            raise self._other(found)
        return dict(found["lists"])

    def _document(self, path: str) -> Any:
        answer = self._sent("GET", path)
        try:
            return json.loads(answer)
        except ValueError:
            raise self._other(answer) from None

    def _other(self, found: Any) -> BackendUnavailableError:
        return BackendUnavailableError(
            f"{self.address} is no server of Keep: it answers {str(found)[:60]!r}; correct its address"
        )

    def _sent(self, method: str, path: str, body: bytes = b"") -> bytes:
        request = Request(method, path, {}, body, most=_DOCUMENT_BYTES)
        answer = self._transport.send(self._server, request)
        _check(request, answer)
        return answer.body


def _check(request: Request, answer: Answer) -> None:
    """Raise the error of an answer that refuses."""
    text = f"{request.method} {request.path}: {answer.text}"
    if answer.status in _NO_RIGHT:
        raise PermissionDeniedError(f"{text}: give the system's token")
    if answer.status != _OK:
        raise BackendUnavailableError(text)


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of one sweep."""

    name: str
    until: datetime


_TURNS = Schema(Turn, "turn of a sweep", states_format=True)


class DataManager:
    """Sweeps over a system: each block on as many servers as wanted, and nothing kept too long."""

    def __init__(self, lake: Lake, system: str) -> None:
        self._lake = lake
        self._systems = lake.keep
        self._name = system
        self._receipts = self._records(_RECEIPT)
        self._turns = self._records(_TURNS)

    def _records(self, schema: Schema[T]) -> RecordStore[T]:
        """Return records of sweeps. The error of one that cannot be read names the way out."""

        def decode(raw: bytes) -> T:
            try:
                return schema.decode(raw)
            except (CorruptionError, OlderFormatError) as error:
                raise CorruptionError(
                    f"the {schema.what} in the system {self._name!r} cannot be read: `graveler keep "
                    f"balance {self._name} --force` begins again: {raw[:60]!r}"
                ) from error

        kv, partition = self._systems.kv, f"keep:{self._name}"
        return RecordStore(kv, partition, prefix=_SWEEPS, encode=schema.encode, decode=decode)

    def sweep(self, *, prefix: str = "", dry_run: bool = False, force: bool = False) -> Receipt:
        """Sweep once, and return what was found and done.

        Args:
            dry_run: Send nothing to the servers.
            force: Trash also more than a fifth of all bytes, and take the turn of a sweep that died. One
                that has not died trashes nothing more.

        Raises:
            GravelerError: A server did not answer, or what was found is not what a sweep may rely
                on. Nothing was trashed.
        """
        if dry_run:
            return self._swept(prefix, "", force=force)
        if force:
            lost = [_TURN] if self._last(force=True) else [_TURN, _LAST]
            self._systems.kv.delete_many(
                f"keep:{self._name}", [_SWEEPS + each.encode() for each in lost]
            )
        name = self._begin()
        try:
            self._collect()
            return self._swept(prefix, name, force=force)
        finally:
            self._end(name)

    def _last(self, *, force: bool) -> Receipt | None:
        """Return the last receipt. With force, one that cannot be read is none."""
        try:
            return self._receipts.get(_LAST)
        except CorruptionError:
            if not force:
                raise
            return None

    def _swept(self, prefix: str, turn: str, *, force: bool) -> Receipt:
        """Sweep in a turn, or, without one, send nothing."""
        last = self._last(force=force)
        receipt, plan = self._with(
            lambda sweep: sweep.run(
                "" if last is None else last.topology, prefix=prefix, dry_run=not turn, force=force
            ),
            turn,
        )
        if turn:
            receipt = self._untrashed(receipt, plan)
            self._receipts.update(
                _LAST,
                lambda _: receipt,
                what=_RECEIPT.what,
                clock=self._systems.clock,
                ids=self._systems.ids,
            )
            if not prefix:
                self._confirm(plan)
                self._systems.collections(self._name).remove_ended()
                self._forget()
        return receipt

    def explain(self, locator: Locator) -> list[str]:
        """Return in words what a sweep would do with each copy of a block, and why."""
        lines = self._with(lambda sweep: sweep.explain(locator))
        name, _, state = lines[0].partition(" is ")
        if state == Category.LOST:
            with closing(self._systems.client(self._name)) as client:
                try:
                    client.get(Locator.parse(name))
                except GravelerError as error:
                    lines.append(str(error))
        return lines

    def _untrashed(self, receipt: Receipt, plan: Plan) -> Receipt:
        """Bring the lost blocks back that are in the trash of a server."""
        back: set[str] = set()
        with closing(self._systems.client(self._name)) as client:
            for block in plan.lost_blocks(_MOST_UNTRASHED):
                try:
                    client.untrash(Locator.parse(block))
                    back.add(block)
                except ObjectNotFoundError:
                    continue
                except GravelerError as error:
                    _log.warning("lost blocks stay lost: %s", error)
                    break
        left = {block: roots for block, roots in receipt.lost.items() if block not in back}
        return replace(receipt, lost=left, untrashed=len(back))

    def last(self) -> Receipt | None:
        """Return the receipt of the last sweep, or None."""
        return self._receipts.get(_LAST)

    def _begin(self) -> str:
        """Take the turn of a sweep, or raise StateError while another one has it."""
        now = self._systems.clock.now()
        turn = Turn(self._systems.ids.unique(), now + _LONGEST)

        def taken(found: Turn | None) -> Turn:
            # a later end is of a clock that was ahead
            if found is not None and now < found.until <= now + 2 * _LONGEST:
                raise StateError(
                    f"another data manager sweeps the system {self._name!r}: wait until it ends, at "
                    f"{found.until:%H:%M} UTC at the latest, or, if it has died, take its turn (--force)"
                )
            return turn

        self._turns.update(
            _TURN, taken, what="turn", clock=self._systems.clock, ids=self._systems.ids
        )
        return turn.name

    def _end(self, name: str) -> None:
        found = self._turns.find(_TURN)
        if found is not None and found.record.name == name:
            self._turns.remove(_TURN, found.predicate)

    def _has(self, name: str) -> bool:
        """Return whether no other sweep took the turn."""
        found = self._turns.get(_TURN)
        return found is not None and found.name == name

    def _collect(self) -> None:
        """Reap runs and collect garbage of the repositories on the system: what they delete is needed less.

        A repository that fails keeps all that it has.
        """
        for name in self._lake.repositories():
            try:
                repository = self._lake.repository(name)
                if repository.storage.startswith(f"keep://{self._name}/"):
                    repository.runs.reap(dry_run=False)
                    repository.gc.run()
            except GravelerError as error:
                _log.warning("repository %s keeps its garbage: %s", name, error)

    def _forget(self) -> None:
        """Remove the records of deleted objects whose time is over."""
        records = gone_of(self._systems.kv, self._name)
        ends = self._systems.clock.now() - self._systems.get(self._name).ttl
        for name, named in list(records.scan()):
            version = records.find(name) if named.mtime <= ends else None
            if version is not None:
                records.remove(name, version.predicate)

    def _confirm(self, plan: Plan) -> None:
        """Note with each collection how many copies its blocks have."""
        collections = self._systems.collections(self._name)
        confirmed = plan.confirmed()
        for seen in collections.page(limit=sys.maxsize):
            if confirmed.get(seen.uuid, seen.confirmed) != seen.confirmed:
                with suppress(NotFoundError):
                    collections.confirm(seen, confirmed[seen.uuid])

    def _with(self, work: Callable[[Sweep], T], turn: str = "") -> T:
        system, servers = self._systems.get(self._name), self._systems.servers(self._name)
        if not servers:
            raise StateError(
                f"the system {self._name!r} has no server: `graveler keep servers add {self._name} URL`"
            )
        clock = self._systems.clock
        client = self._systems.client(self._name)
        transport = Transport(
            system.token, clock=clock, silence_s=NO_PROGRESS_S, tls_ca=system.tls_ca
        )
        roots = SystemRoots(
            self._systems.kv, self._name, self._systems.collections(self._name), client
        )
        try:
            sweep = Sweep(
                [HttpServer(Server(each.uuid, each.url), transport) for each in servers],
                roots,
                clock,
                int(system.ttl.total_seconds()),
                replication=system.replication,
                draining=[each.uuid for each in servers if each.state is ServerState.DRAINING],
                has_changed=lambda: (
                    self._systems.servers(self._name) != servers or not self._has(turn)
                ),
            )
            return work(sweep)
        finally:
            transport.close()
            client.close()
