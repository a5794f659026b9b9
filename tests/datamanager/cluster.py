"""A cluster in memory: volumes as dictionaries, servers that work their lists on request."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from graveler.base.clock import Clock, unix_us
from graveler.datamanager.blocks import Source
from graveler.datamanager.indexes import keys
from graveler.datamanager.sweep import Sweep
from graveler.errors import BackendUnavailableError
from graveler.keep.locators import Locator

TTL = 14 * 86_400
START = datetime(2026, 11, 1, tzinfo=UTC)


class Hours(Clock):
    """A clock that goes on by calls of sleep, and by 1 µs with each question."""

    def __init__(self):
        self.time = START

    def now(self):
        self.time += timedelta(microseconds=1)
        return self.time

    def sleep(self, seconds):
        self.time += timedelta(seconds=seconds)

    def ns(self):
        return unix_us(self.now()) * 1000


@dataclass
class Server:
    """A server of the cluster, which is also the sweep's client of it.

    Attributes:
        views: The volumes and what it may do with them, as in the answer to GET /mounts.
        calls: The names of all calls, in order.
        failing: An error for each call that fails.
    """

    cluster: "Cluster"
    uuid: str
    views: list[Any]
    up: bool = True
    pulls: list[Any] = field(default_factory=list)
    trash: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    failing: dict[str, Exception] = field(default_factory=dict)

    @property
    def address(self):
        return f"http://{self.uuid[-3:]}:25107"

    def _called(self, name):
        if not self.up:
            raise BackendUnavailableError("no answer")
        self.calls.append(name)
        self.cluster.calls.append((self.uuid, name))
        if name in self.failing:
            raise self.failing[name]

    def mounts(self):
        self._called("mounts")
        return self.views

    def index(self, volume, prefix):
        self._called("index")
        for locator, mtime in self.cluster.volumes[volume].items():
            if locator.startswith(prefix):
                yield f"{locator} {mtime}\n".encode()
        yield b"\n"

    def clear(self):
        self._called("clear")
        self.pulls, self.trash = [], []

    def send_pulls(self, items):
        self._called("send_pulls")
        self.pulls = list(items)

    def send_trash(self, items):
        self._called("send_trash")
        self.trash = list(items)

    def receipts(self):
        self._called("receipts")
        return {"pulls": len(self.pulls), "trash": len(self.trash)}

    def work(self):
        """Work both lists as a server does: with its own check of each item."""
        cluster = self.cluster
        for item in self.pulls if self.up else ():
            if any(cluster.has(address, item["locator"]) for address in item["servers"]):
                cluster.volumes[item["mount_uuid"]][item["locator"]] = cluster.clock.ns()
        for item in self.trash if self.up else ():
            held = cluster.volumes[item["mount_uuid"]]
            mtime = held.get(item["locator"])
            if mtime == item["block_mtime"] and cluster.clock.ns() - mtime >= TTL * 10**9:
                del held[item["locator"]]
        self.pulls, self.trash = [], []


class Cluster:
    """Servers, their volumes, and the roots that need blocks."""

    def __init__(self):
        self.clock = Hours()
        self.servers = []
        self._numbers = -1
        self.volumes = {}
        self.needed = {}
        self.calls = []
        self.late = []
        self._random = Random(7)

    def add(self, volumes=1, at=None):
        """Add a server with new volumes, or put it in the place of another one; return it."""
        self._numbers += 1
        views = [self.view(f"zzzzz-nyw5e-{self._numbers:07d}{n:08d}") for n in range(volumes)]
        server = Server(self, f"zzzzz-bi6l4-{self._numbers:015d}", views)
        if at is None:
            self.servers.append(server)
        else:
            self.servers[at] = server
        return server

    def view(self, uuid):
        """Return an answer to GET /mounts for a volume, which is made if it is new."""
        self.volumes.setdefault(uuid, {})
        return {
            "uuid": uuid,
            "device_id": f"device-{uuid}",
            "allow_write": True,
            "allow_trash": True,
            "replication": 1,
            "storage_classes": {"default": True},
        }

    def has(self, address, locator):
        return any(
            locator in self.volumes[view["uuid"]]
            for server in self.servers
            if server.up and server.address == address
            for view in server.views
        )

    def copies(self, locator):
        """Return how many volumes of running servers have a block."""
        return len(
            {
                view["uuid"]
                for server in self.servers
                if server.up
                for view in server.views
                if locator in self.volumes[view["uuid"]]
            }
        )

    def write(self, root, blocks, wanted=2):
        """Store blocks as a client does, on any servers, and let a root need them."""
        for locator in blocks:
            for server in self._random.sample([s for s in self.servers if s.up], wanted):
                view = self._random.choice(server.views)
                self.volumes[view["uuid"]][locator] = self.clock.ns()
        self.needed.setdefault(root, set()).update(blocks)

    def source(self, root, blocks=None, **more):
        blocks = self.needed[root] if blocks is None else blocks
        return Source(
            root, root.partition("/")[0], keys(map(Locator.parse, sorted(blocks))), **more
        )

    def read(self):
        self.calls.append(("", "read"))
        return 1, [self.source(root) for root in self.needed]

    doubt = ""

    def newer(self, generation):
        assert generation == 1
        self.calls.append(("", "newer"))
        return self.late

    def sweep(self, *, last="", prefix="", dry_run=False, force=False, **settings):
        """Sweep over all servers that are part of the cluster, and return receipt and plan."""
        sweep = Sweep(self.servers, self, self.clock, ttl=TTL, **settings)
        return sweep.run(last, prefix=prefix, dry_run=dry_run, force=force)

    def work(self):
        for server in self.servers:
            server.work()
