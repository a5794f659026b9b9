"""The decision for one block: which copies are needed, which are missing, which may go.

Copies on one volume count once, through however many servers they are seen. Copies of equal mtimes
may be one copy seen twice: that counts as several when copies are added, and as one when copies are
removed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from graveler.base.records import FLAG, TEXT, integer, mapping, read_fields
from graveler.keep.placement import servers_for, weight

_MOST = 2**31
_ANY = integer(-_MOST)


class Action(StrEnum):
    """What happens at a place of a block."""

    STAY = "stay"
    NOTHING = "nothing"
    PULL = "pull"
    TRASH = "trash"
    LOST = "lost"


class Category(StrEnum):
    """The state of a block."""

    BALANCED = "balanced"
    OVERREPLICATED = "overreplicated"
    UNDERREPLICATED = "underreplicated"
    UNACHIEVABLE = "unachievable"
    GARBAGE = "garbage"
    TRANSIENT = "transient"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume as one server has it.

    Attributes:
        server: The UUID of the server.
        volume: The UUID of the volume, which several servers may have.
        draining: Whether its copies do not count: others take their place.
    """

    server: str
    volume: str
    device: str = ""
    writable: bool = True
    trashable: bool = True
    replication: int = 1
    classes: frozenset[str] = frozenset({"default"})
    draining: bool = False

    @classmethod
    def read(cls, value: Any, server: str, *, draining: bool = False) -> Self:
        """Return the mount of a server's answer, or raise CorruptionError."""
        uuid, device, writable, trashable, replication, classes = read_fields(
            value,
            f"a mount of server {server}",
            uuid=TEXT,
            device_id=TEXT,
            allow_write=FLAG,
            allow_trash=FLAG,
            replication=_ANY,
            storage_classes=mapping(FLAG),
        )
        names = frozenset(name for name, on in classes.items() if on) or frozenset({"default"})
        copies = max(replication, 1)
        return cls(server, uuid, device, writable, trashable, copies, names, draining)


def usable(mounts: Iterable[Mount]) -> list[Mount]:
    """Return the mounts without views of a volume that another server may write."""
    mounts = list(mounts)
    written = {mount.volume for mount in mounts if mount.writable and not mount.draining}
    return [mount for mount in mounts if mount.writable or mount.volume not in written]


@dataclass(slots=True, eq=False)
class Slot:
    """A mount, and what becomes of the block there.

    Attributes:
        at: The position of the mount among all mounts.
        mtime: When the copy was written or touched, in ns; None without a copy.
        needed: Whether the block shall be there.
        chosen: The classes for which the mount was chosen.
    """

    at: int
    mount: Mount
    rank: int
    order: str
    mtime: int | None
    needed: bool
    chosen: tuple[str, ...] = ()
    action: Action = Action.NOTHING


@dataclass(slots=True, eq=False)
class Decision:
    """What becomes of a block.

    Attributes:
        slots: All mounts, in the order in which servers are tried.
        unsafe: The mtimes of copies that stay, and of what may be the same copies.
        short: The classes that have fewer copies than are wanted. Nothing is then trashed.
    """

    slots: list[Slot]
    unsafe: set[int] = field(default_factory=set)
    short: list[str] = field(default_factory=list)
    needed: int = 0
    unneeded: int = 0
    pulling: int = 0
    category: Category = Category.BALANCED


def balance_block(
    digest: str,
    mounts: Sequence[Mount],
    mtimes: Mapping[int, int],
    wanted: Mapping[str, int],
    oldest: int,
    ranks: Mapping[str, int] | None = None,
) -> Decision:
    """Return the decision for a block.

    Args:
        mtimes: The mtime of each copy, in ns, by the position of its mount.
        wanted: The number of copies of each storage class.
        oldest: Copies from this time on, in ns, are not trashed.
        ranks: The rank of each server for the block, if it is known.
    """
    if ranks is None:
        servers = servers_for(digest, {mount.server for mount in mounts})
        ranks = {server: rank for rank, server in enumerate(servers)}
    slots = [
        Slot(
            *(at, mount, ranks[mount.server], weight(digest, mount.volume), mtimes.get(at)),
            needed=at in mtimes and not mount.trashable,
        )
        for at, mount in enumerate(mounts)
    ]
    slots.sort(key=lambda slot: (slot.rank, slot.order))
    decision = Decision(slots)
    for name in sorted(wanted):
        if wanted[name] > 0:
            _choose(decision, name, wanted[name])
    for slot in slots:
        if slot.mtime is not None and (decision.short or slot.mtime in decision.unsafe):
            slot.needed = True
    _act(decision, oldest)
    _count(decision, wanted, oldest)
    return decision


def _choose(decision: Decision, name: str, wanted: int) -> None:
    """Choose the mounts for a class, and the copies that are kept until it has its copies."""
    slots = [slot for slot in decision.slots if not slot.mount.draining]
    slots.sort(
        key=lambda slot: (
            name not in slot.mount.classes,
            not slot.needed,
            slot.rank,
            slot.mtime is None,
            slot.order,
        )
    )
    least: dict[int, int] = {}
    held: dict[str, int] = {}
    for slot in slots:
        if slot.mtime is not None and name in slot.mount.classes:
            held[slot.mount.volume] = slot.mount.replication
            least[slot.mtime] = min(least.get(slot.mtime, _MOST), slot.mount.replication)
    volumes: set[str] = set()
    servers: set[str] = set()
    kept = chosen = 0
    for only_new in (True, False):
        for slot in slots:
            mount, mtime = slot.mount, slot.mtime
            if mount.volume in volumes or (only_new and mount.server in servers):
                continue
            if kept < wanted and mtime is not None and mtime in least:
                kept += least.pop(mtime)
                decision.unsafe.add(mtime)
            if chosen < wanted and (mtime is not None or mount.writable):
                slot.needed, slot.chosen = True, (*slot.chosen, name)
                volumes.add(mount.volume)
                servers.add(mount.server)
                chosen += mount.replication
    if sum(held.values()) < wanted:
        decision.short.append(name)
    decision.unsafe.update(
        slot.mtime for slot in slots if slot.mtime is not None and slot.mount.volume in volumes
    )


def _act(decision: Decision, oldest: int) -> None:
    """Set the action of each slot. Of copies with one mtime, one run trashes only one."""
    trashed: set[int] = set()
    found = any(slot.mtime is not None for slot in decision.slots)
    for slot in decision.slots:
        if slot.mtime is None:
            if slot.needed:
                slot.action = Action.PULL if found else Action.LOST
        elif slot.needed or slot.mtime >= oldest or slot.mtime in trashed:
            slot.action = Action.STAY
        else:
            slot.action = Action.TRASH
            trashed.add(slot.mtime)


def _count(decision: Decision, wanted: Mapping[str, int], oldest: int) -> None:
    slots = decision.slots
    found = {slot.mount.volume for slot in slots if slot.mtime is not None}
    needed = {slot.mount.volume for slot in slots if slot.mtime is not None and slot.needed}
    pulling = {slot.mount.volume for slot in slots if slot.action is Action.PULL} - found
    reached: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for slot in slots:
        if slot.mount.volume in found | pulling and not slot.mount.draining:
            for name in slot.mount.classes:
                reached[name][slot.mount.volume] = slot.mount.replication
    decision.needed, decision.unneeded = len(needed), len(found - needed)
    decision.pulling = len(pulling)
    missing = any(sum(reached[name].values()) < number for name, number in wanted.items())
    young = any(slot.mtime is not None and slot.mtime >= oldest for slot in slots)
    categories = (
        (not found and any(wanted.values()), Category.LOST),
        (pulling, Category.UNDERREPLICATED),
        (missing, Category.UNACHIEVABLE),
        (found > needed and needed, Category.OVERREPLICATED),
        (found > needed and young, Category.TRANSIENT),
        (found > needed, Category.GARBAGE),
        (True, Category.BALANCED),
    )
    decision.category = next(category for holds, category in categories if holds)
