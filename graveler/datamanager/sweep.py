"""A sweep: from the mounts of all servers to the lists that are sent to them.

The order makes it safe. The live set is read after the indexes, so that a block written meanwhile
is only too young. Roots that came later are asked for before anything is trashed. Pulls are sent
before trash, and trash only if nothing failed. A fault of any server ends the sweep.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from graveler.base.clock import Clock, unix_us
from graveler.base.parallel import Bounds, in_order
from graveler.datamanager.balance import Mount, usable
from graveler.datamanager.blocks import Blocks, Source, Usage
from graveler.datamanager.indexes import check_prefix, read_index
from graveler.datamanager.plan import ClassTally, Plan, Tally
from graveler.errors import GravelerError, InvalidInputError, ObjectNotFoundError, StateError
from graveler.keep.locators import Locator

LIMIT = 100_000
"""The most pulls, and the most copies to trash, that a server gets in one sweep."""

_THREADS = 8
_NAMED = 100
_DAY_US = 86_400 * 10**6


class ServerClient(Protocol):
    """What a sweep asks of a server. Each call raises an error if the server does not do it."""

    @property
    def uuid(self) -> str:
        """The UUID of the server."""

    @property
    def address(self) -> str:
        """Where other servers pull from."""

    def mounts(self) -> Sequence[Any]:
        """Return the answer to ``GET /mounts``. Needs the right of an admin."""

    def index(self, volume: str, prefix: str) -> Iterator[bytes]:
        """Yield the index of a volume, cut anywhere, with the blank line at its end.

        Several threads call it at once, each for another volume.
        """

    def clear(self) -> None:
        """Replace the lists by empty ones."""

    def send_pulls(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Replace the pull list."""

    def send_trash(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Replace the trash list."""

    def receipts(self) -> Mapping[str, Any]:
        """Return what became of the last lists."""


class Roots(Protocol):
    """What needs blocks: collections, and refs, staged entries and runs of repositories."""

    def read(self) -> tuple[Any, Iterable[Source]]:
        """Return a generation, taken first, and the sources of all roots."""

    def newer(self, generation: Any) -> Iterable[Source]:
        """Return the sources of roots that were added or changed after a generation."""

    @property
    def doubt(self) -> str:
        """Why the roots may need more blocks than they say; "" if they do not."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What one kind of list has: items sent, items left to later sweeps, bytes of both."""

    sent: int
    deferred: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a sweep found and did.

    Attributes:
        topology: A digest of the servers and their volumes. The next sweep gets it.
        states: The numbers of blocks by category.
        classes: The numbers of copies by storage class.
        ahead: For each server with copies dated more than a day ahead, their number.
        spared: Copies that stay because a root named them during the sweep.
        withheld: Why no copy was trashed; "" if none was withheld.
        lost: The first lost blocks, each with the roots that need it.
        earlier: What each server said of its lists of the sweep before.
        untrashed: How many lost blocks came back from trash.
    """

    started: datetime
    ended: datetime
    topology: str
    dry_run: bool
    cleared: bool
    states: Mapping[str, Tally]
    classes: Mapping[str, ClassTally]
    ahead: Mapping[str, int]
    pulls: Sent
    trash: Sent
    spared: int
    withheld: str
    lost: Mapping[str, tuple[str, ...]]
    usage: tuple[Usage, ...]
    earlier: Mapping[str, Any]
    untrashed: int = 0

    def report(self) -> str:
        """Return the receipt in words."""
        lines = [f"sweep of {self.started:%Y-%m-%d %H:%M:%S} UTC" + " (dry run)" * self.dry_run]
        lines += [
            f"{name}: {each.blocks:,} blocks, {each.copies:,} copies, {each.bytes:,} bytes"
            for name, each in self.states.items()
            if each.blocks
        ]
        lines += [
            f"class {name}: {each.wanted:,} copies wanted, {each.present:,} present, "
            f"{each.missing:,} missing, {each.surplus:,} surplus"
            for name, each in self.classes.items()
        ]
        lines += [
            f"server {server}: {count:,} copies are dated more than a day ahead, and stay until then: "
            "correct its clock, and touch their files"
            for server, count in self.ahead.items()
        ]
        for name, list_ in (("pull", self.pulls), ("trash", self.trash)):
            lines.append(
                f"{name}: {list_.sent:,} sent, {list_.deferred:,} deferred, {list_.bytes:,} bytes"
            )
        for server, lists in self.earlier.items():
            if failed := lists.get("pull", {}).get("skipped"):
                reasons = ", ".join(f"{count:,} {reason}" for reason, count in failed.items())
                lines.append(f"server {server}: pulls of the sweep before that failed: {reasons}")
        if self.spared:
            lines.append(f"spared: {self.spared:,} copies that new roots need")
        if self.withheld:
            lines.append(f"trash withheld: {self.withheld}")
        if self.untrashed:
            lines.append(f"untrashed: {self.untrashed:,} of the lost blocks, which were in trash")
        lines += [f"lost: {block}, needed by {', '.join(by)}" for block, by in self.lost.items()]
        lines += [
            f"{each.owner}: {each.referenced:,} bytes, {each.unique:,} of them alone, "
            f"{each.share:,} as its share of what is shared"
            for each in self.usage
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Sweeps over given servers.

    Attributes:
        ttl: The system's time to live, in seconds. No younger copy is trashed.
        replication: The number of copies for roots that state none.
        limits: The most pulls and the most copies to trash for each server. 0 sends nothing.
        most_trash: The part of all stored bytes that one sweep may trash without force.
        draining: The UUIDs of servers whose copies move to the others.
        has_changed: Whether a server was added, removed or drained since then, or another sweep took
            the turn.
    """

    servers: Sequence[ServerClient]
    roots: Roots
    clock: Clock
    ttl: int
    replication: int = 2
    limits: tuple[int, int] = (LIMIT, LIMIT)
    most_trash: float = 0.2
    draining: Collection[str] = ()
    has_changed: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        if self.replication < 1:
            raise InvalidInputError(f"replication={self.replication}: give at least 1 copy")
        uuids = [server.uuid for server in self.servers]
        if not uuids or len(set(uuids)) < len(uuids):
            raise InvalidInputError(f"servers={uuids}: give at least one, and each once")

    def run(
        self, last: str = "", *, prefix: str = "", dry_run: bool = False, force: bool = False
    ) -> tuple[Receipt, Plan]:
        """Sweep once.

        Args:
            last: The topology of the receipt of the last sweep that succeeded.
            prefix: Only blocks whose digests begin so.
            dry_run: Send nothing. All items count as deferred.
            force: Trash more than `most_trash`.

        Raises:
            GravelerError: A server failed or refused the call, or an index is not complete.
            StateError: The servers or the live set are not what a sweep may rely on.
        """
        started = self.clock.now()
        mounts = self._mounts()
        topology = self._topology(mounts)
        earlier = {}
        cleared = topology != last and not dry_run
        for server in self.servers:
            with _naming(server):
                earlier[server.uuid] = dict(server.receipts())
                if cleared:
                    server.clear()
        generation, plan = self._plan(mounts, started, prefix)
        self._check_live(plan.blocks)
        spared = sum(plan.spare(source.blocks) for source in self.roots.newer(generation))
        withheld = self.roots.doubt or ("" if force else self._withheld(plan))
        if not dry_run and (self.has_changed() or self._topology(self._mounts()) != topology):
            withheld = "a server or a volume was added, removed or drained meanwhile, or another sweep took the turn"
        most_pulls, most_trash = (0, 0) if dry_run else self.limits
        pulls = self._send("pulls", plan, limit=most_pulls, send=most_pulls > 0)
        trash = self._send("trash", plan, limit=0 if withheld else most_trash, send=most_trash > 0)
        return Receipt(
            started=started,
            ended=self.clock.now(),
            topology=topology,
            dry_run=dry_run,
            cleared=cleared,
            states=plan.tallies(),
            classes=plan.classes(),
            ahead=plan.ahead((unix_us(started) + _DAY_US) * 1000),
            pulls=pulls,
            trash=trash,
            spared=spared,
            withheld=withheld,
            lost=plan.lost(_NAMED),
            usage=plan.blocks.usage(),
            earlier=earlier,
        ), plan

    def explain(self, locator: Locator) -> list[str]:
        """Return in words what a sweep would do with each copy of a block, and why."""
        _, plan = self._plan(self._mounts(), self.clock.now(), locator.digest)
        if not len(plan.blocks):
            raise ObjectNotFoundError(
                f"no server has a copy of {locator.digest}, and no root needs it"
            )
        return [line for block in range(len(plan.blocks)) for line in plan.explain(block)]

    def _mounts(self) -> list[Mount]:
        mounts = []
        for server in self.servers:
            draining = server.uuid in self.draining
            with _naming(server):
                mounts += [
                    Mount.read(each, server.uuid, draining=draining) for each in server.mounts()
                ]
        volumes: dict[str, str] = {}
        writers = {mount.volume: mount.server for mount in mounts if mount.writable}
        for mount in mounts:
            if mount.writable and (writer := writers[mount.volume]) != mount.server:
                names = {
                    server.uuid: f"{server.uuid} ({server.address})" for server in self.servers
                }
                raise StateError(
                    f"servers {names[mount.server]} and {names[writer]} both have volume {mount.volume}: "
                    "one folder is a copy of the other, or it is one server with two addresses; remove "
                    "one of them, or serve only one of the folders"
                )
            other = volumes.setdefault(mount.device or mount.volume, mount.volume)
            if other != mount.volume:
                raise StateError(
                    f"device {mount.device!r} is volume {other} and volume {mount.volume} of server "
                    f"{mount.server}: its copies would count twice; remove one of the volumes"
                )
        return usable(mounts)

    def _topology(self, mounts: Iterable[Mount]) -> str:
        servers = sorted(f"{server.uuid} ({server.address})" for server in self.servers)
        parts = sorted(
            f"{m.server} {m.volume} {m.writable} {m.trashable} {m.draining}" for m in mounts
        )
        text = "; ".join(servers + parts)
        return md5(text.encode(), usedforsecurity=False).hexdigest()

    def _plan(self, mounts: list[Mount], started: datetime, prefix: str) -> tuple[Any, Plan]:
        """Read the indexes, then the live set, and decide."""
        check_prefix(prefix)
        clients = {server.uuid: server for server in self.servers}
        first = {mount.volume: clients[mount.server] for mount in reversed(mounts)}
        volumes = sorted(first)

        def read(volume: str) -> NDArray[np.void]:
            server = first[volume]
            with _naming(server):
                return read_index(server.index(volume, prefix), server.uuid, volume, prefix)

        bounds: Bounds[str] = Bounds(_THREADS, len(volumes) or 1, cost=lambda _: 0)
        indexes = list(in_order(read, volumes, bounds))
        generation, sources = self.roots.read()
        blocks = Blocks(indexes, sources, self.replication, prefix)
        oldest = (unix_us(started) - self.ttl * 10**6) * 1000
        return generation, Plan(blocks, mounts, volumes, oldest)

    def _check_live(self, blocks: Blocks) -> None:
        if not len(blocks.rows):
            raise StateError(
                f"none of {len(blocks.sources)} sources names a block: a sweep would trash all that "
                "is stored; check that the live set is read from the right place"
            )
        if not any(row.any() for row in blocks.wanted.values()):
            raise StateError(
                "no block is wanted in any copy: a sweep would trash all that is stored"
            )

    def _withheld(self, plan: Plan) -> str:
        gone = plan.bytes_of(plan.trash)
        stored = sum(tally.bytes for tally in plan.tallies().values())
        if gone <= self.most_trash * stored:
            return ""
        return (
            f"{gone:,} of {stored:,} stored bytes would go, more than {self.most_trash:.0%}: check "
            "the live set, then force it"
        )

    def _send(self, kind: str, plan: Plan, *, limit: int, send: bool) -> Sent:
        """Send a list to every server; an empty one replaces the list of an earlier sweep."""
        rows = plan.pulls if kind == "pulls" else plan.trash
        addresses = {server.uuid: server.address for server in self.servers}
        sent = 0
        for server in self.servers if send else ():
            own = plan.of_server(rows, server.uuid)[:limit]
            with _naming(server):
                if kind == "pulls":
                    server.send_pulls(list(plan.pull_items(own, addresses)))
                else:
                    server.send_trash(list(plan.trash_items(own)))
            sent += len(own)
        return Sent(sent, len(rows) - sent, plan.bytes_of(rows))


@contextmanager
def _naming(server: ServerClient) -> Iterator[None]:
    """Name the server in the errors of a call."""
    try:
        yield
    except GravelerError as error:
        place = f"server {server.uuid} ({server.address})"
        raise error.saying(f"{place}: {error}; no copy is trashed without all servers") from error
