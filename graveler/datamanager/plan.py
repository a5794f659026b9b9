"""The plan of a sweep: what happens to all blocks, as lists for the servers and as numbers.

Most blocks are decided in arrays: they are where they belong, or nothing needs them. The others are
decided one by one by `balance_block`, with the same result.
"""

from binascii import hexlify
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import md5
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graveler.base.clock import from_unix_us
from graveler.datamanager.balance import Action, Category, Decision, Mount, Slot, balance_block
from graveler.datamanager.blocks import Blocks, Numbers
from graveler.keep.placement import servers_for

_CHUNK = 1 << 16
_SUFFIX = 15
_NUMBER = {category: number for number, category in enumerate(Category)}


@dataclass(frozen=True, slots=True)
class Tally:
    """Blocks, their copies, and the bytes of the copies."""

    blocks: int
    copies: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ClassTally:
    """Copies in a storage class: wanted + surplus = present + missing."""

    wanted: int
    present: int
    missing: int
    surplus: int


class Plan:
    """Decides all blocks.

    Args:
        volumes: The UUIDs of the volumes, in the order of the indexes of `blocks`.
        oldest: Copies from this time on, in ns, are not trashed.

    Attributes:
        pulls: A row for each pull: block, position of the mount.
        trash: A row for each copy to trash: block, position of the mount, mtime.
    """

    def __init__(
        self, blocks: Blocks, mounts: Sequence[Mount], volumes: Sequence[str], oldest: int
    ) -> None:
        self.blocks = blocks
        self.mounts = mounts
        self._oldest = oldest
        self._servers = sorted({mount.server for mount in mounts})
        self._classes = sorted(blocks.wanted) or ["default"]
        self._tables(volumes)
        self._states = np.zeros(len(blocks), np.uint8)
        self._pulls: list[tuple[int, int]] = []
        self._trash: list[Numbers] = [np.empty((0, 3), np.int64)]
        for begin in range(0, len(blocks), _CHUNK):
            self._decide(begin, min(len(blocks), begin + _CHUNK))
        self.trash = np.concatenate(self._trash)
        pulls = np.array(self._pulls, np.int64).reshape(-1, 2)
        self.pulls = pulls[np.argsort(blocks.copies[pulls[:, 0]], kind="stable")]

    def _tables(self, volumes: Sequence[str]) -> None:
        """Set what the arrays look up by volume, by server and by class."""
        at = {volume: number for number, volume in enumerate(volumes)}
        self._views: list[list[int]] = [[] for _ in volumes]
        self._server = np.zeros(len(volumes), np.int64)
        self._trashable = np.zeros(len(volumes), np.bool_)
        self._plain = np.zeros((len(volumes), len(self._classes)), np.bool_)
        self._offers = np.zeros((len(self._classes), len(self._servers)), np.bool_)
        for number, mount in enumerate(self.mounts):
            volume, server = at[mount.volume], self._servers.index(mount.server)
            self._views[volume].append(number)
            self._server[volume], self._trashable[volume] = server, mount.trashable
            for kind, name in enumerate(self._classes):
                if mount.writable and not mount.draining and name in mount.classes:
                    self._plain[volume, kind] = mount.replication == 1
                    self._offers[kind, server] = True
        shared = np.array([len(views) > 1 for views in self._views], np.bool_)
        self._trashable[shared] = False
        self._plain[shared] = False
        self._mount = np.array([views[0] for views in self._views], np.int64)

    def _decide(self, begin: int, end: int) -> None:
        blocks, count = self.blocks, end - begin
        copies = blocks.copies[begin:end]
        rows = slice(blocks.starts[begin], blocks.starts[end])
        block = np.repeat(np.arange(count), copies)
        volume, mtime = blocks.volume[rows], blocks.mtime[rows]
        none = np.zeros((1, count), np.uint16)
        wanted = np.stack([each[begin:end] for each in blocks.wanted.values()] or [*none])
        named = (wanted > 0).sum(0)
        states = self._states[begin:end]

        states[copies == 0] = _NUMBER[Category.LOST]
        states[(copies == 0) & (named == 0)] = _NUMBER[Category.BALANCED]
        unneeded = (named == 0) & (copies > 0) & self._plain_garbage(block, volume, mtime, count)
        old = mtime < self._oldest
        young = np.bincount(block[~old], minlength=count) > 0
        states[unneeded] = _NUMBER[Category.GARBAGE]
        states[unneeded & young] = _NUMBER[Category.TRANSIENT]
        gone = unneeded[block] & old
        self._trash.append(
            np.stack([block[gone] + begin, self._mount[volume[gone]], mtime[gone]], 1)
        )

        hashed = np.flatnonzero((named > 0) & (copies > 0))
        weights = self._weights(hashed + begin)
        kind, number = wanted.argmax(0), wanted.max(0)
        ranks = np.zeros((count, len(self._servers)), np.int64)
        ranks[hashed] = _ranks(np.where(self._offers[kind[hashed]], weights, 0))
        server = self._server[volume]
        fits = self._plain[volume, kind[block]] & (ranks[block, server] < number[block])
        held = np.zeros(ranks.shape, np.bool_)
        held[block[fits], server[fits]] = True
        settled = (named == 1) & (copies == number) & (held.sum(1) == number)
        ranks[hashed] = _ranks(weights)
        odd = np.flatnonzero((copies > 0) & ~unneeded & ~settled)
        self._decide_each(begin, odd, ranks)

    def _plain_garbage(
        self, block: Numbers, volume: Numbers, mtime: Numbers, count: int
    ) -> Numbers:
        """Return for each block whether its copies may all go: on trashable volumes, no two alike."""
        kept = ~self._trashable[volume]
        order = np.lexsort((mtime, block))
        same = (np.diff(block[order]) == 0) & (np.diff(mtime[order]) == 0)
        kept[order[1:][same]] = True
        free: Numbers = np.bincount(block[kept], minlength=count) == 0
        return free

    def _weights(self, blocks: Numbers) -> NDArray[np.uint64]:
        """Return the first half of the weight of each server for each block."""
        keys = np.empty((len(blocks), 2), ">u8")
        keys[:, 0], keys[:, 1] = self.blocks.high[blocks], self.blocks.low[blocks]
        text = hexlify(keys.tobytes())
        suffixes = [server[-_SUFFIX:].encode() for server in self._servers]
        digests = [
            md5(text[at : at + 32] + suffix, usedforsecurity=False).digest()
            for at in range(0, len(text), 32)
            for suffix in suffixes
        ]
        halves = np.frombuffer(b"".join(digests), ">u8")[::2]
        return halves.astype(np.uint64).reshape(len(blocks), len(suffixes))

    def _decide_each(self, begin: int, odd: Numbers, ranks: Numbers) -> None:
        trash = []
        for at, row in zip((odd + begin).tolist(), ranks[odd].tolist(), strict=True):
            hashed = dict(zip(self._servers, row, strict=True)) if any(row) else None
            decision = self._decision(at, hashed)
            self._states[at] = _NUMBER[decision.category]
            for slot in decision.slots:
                if slot.action is Action.PULL:
                    self._pulls.append((at, slot.at))
                elif slot.action is Action.TRASH:
                    trash.append((at, slot.at, slot.mtime))
        self._trash.append(np.array(trash, np.int64).reshape(-1, 3))

    def _decision(self, block: int, ranks: dict[str, int] | None = None) -> Decision:
        blocks = self.blocks
        rows = slice(blocks.starts[block], blocks.starts[block + 1])
        pairs = zip(blocks.volume[rows].tolist(), blocks.mtime[rows].tolist(), strict=True)
        mtimes = {view: mtime for volume, mtime in pairs for view in self._views[volume]}
        wanted = {name: int(row[block]) for name, row in blocks.wanted.items()}
        digest = blocks.digest(block)
        return balance_block(digest, self.mounts, mtimes, wanted, self._oldest, ranks)

    def spare(self, needed: NDArray[np.void]) -> int:
        """Drop what would be trashed of blocks that are needed after all; return the number."""
        # the first half of a digest decides: a block more that stays does no harm
        spared = np.isin(self.blocks.high[self.trash[:, 0]], needed["high"].astype(np.uint64))
        self.trash = self.trash[~spared]
        return int(spared.sum())

    def bytes_of(self, rows: Numbers) -> int:
        """Return the bytes that pulls or copies to trash are together."""
        return int(self.blocks.size[rows[:, 0]].sum(dtype=np.int64))

    def of_server(self, rows: Numbers, server: str) -> Numbers:
        """Return the pulls, or the copies to trash, of a server."""
        here = np.array([mount.server == server for mount in self.mounts], np.bool_)
        return rows[here[rows[:, 1]]]

    def pull_items(self, rows: Numbers, addresses: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Yield pulls as servers read them, with all servers that have a copy, in their order."""
        for block, mount in rows.tolist():
            copies = slice(self.blocks.starts[block], self.blocks.starts[block + 1])
            views = [view for volume in self.blocks.volume[copies] for view in self._views[volume]]
            servers = {self.mounts[view].server for view in views}
            yield {
                "locator": self.blocks.locator(block),
                "servers": [addresses[s] for s in servers_for(self.blocks.digest(block), servers)],
                "mount_uuid": self.mounts[mount].volume,
            }

    def trash_items(self, rows: Numbers) -> Iterator[dict[str, Any]]:
        """Yield copies to trash as servers read them."""
        for block, mount, mtime in rows.tolist():
            yield {
                "locator": self.blocks.locator(block),
                "block_mtime": mtime,
                "mount_uuid": self.mounts[mount].volume,
            }

    def tallies(self) -> dict[str, Tally]:
        """Return the numbers of each category."""
        copies = self.blocks.copies
        columns = [
            np.bincount(self._states, weights, len(_NUMBER)).astype(np.int64).tolist()
            for weights in (None, copies, copies * self.blocks.size.astype(np.float64))
        ]
        return {
            name.value: Tally(*numbers) for name, *numbers in zip(_NUMBER, *columns, strict=True)
        }

    def lost(self, most: int) -> dict[str, tuple[str, ...]]:
        """Return the locators of the first lost blocks, each with the roots that need it."""
        return {name: tuple(self.blocks.roots(at)) for name, at in self.lost_blocks(most).items()}

    def lost_blocks(self, most: int) -> dict[str, int]:
        """Return the locators of the first lost blocks, each with its number."""
        lost = np.flatnonzero(self._states == _NUMBER[Category.LOST])[:most].tolist()
        return {self.blocks.locator(block): block for block in lost}

    @cached_property
    def _present(self) -> dict[str, Numbers]:
        """For each class, how many copies of each block count; those that drain do not."""
        mounts = [self.mounts[views[0]] for views in self._views]
        names = {*self._classes, *(name for mount in mounts for name in mount.classes)}
        counts = {
            name: [m.replication * (name in m.classes and not m.draining) for m in mounts]
            for name in sorted(names)
        }
        return self.blocks.present(counts)

    def confirmed(self) -> dict[str, int]:
        """Return for each root how many copies every one of its blocks has, at most the wanted."""
        return self.blocks.confirmed(self._present)

    def classes(self) -> dict[str, ClassTally]:
        """Return the numbers of each storage class."""
        found = {}
        for name, present in self._present.items():
            wanted = self.blocks.wanted.get(name, np.zeros_like(present)).astype(np.int64)
            numbers = wanted, present, (wanted - present).clip(0), (present - wanted).clip(0)
            found[name] = ClassTally(*(int(each.sum()) for each in numbers))
        return found

    def ahead(self, time: int) -> dict[str, int]:
        """Return for each server how many of its copies are later than a time, in ns."""
        blocks, found = self.blocks, Counter[str]()
        counts = np.bincount(blocks.volume[blocks.mtime > time], minlength=len(self._views))
        for views, count in zip(self._views, counts.tolist(), strict=True):
            found[self.mounts[views[0]].server] += count
        return dict(sorted((+found).items()))

    def explain(self, block: int) -> list[str]:
        """Return in words what happens to a block, and why."""
        decision = self._decision(block)
        wanted = [
            f"{row[block]} in class {name}"
            for name, row in self.blocks.wanted.items()
            if row[block]
        ]
        roots = self.blocks.roots(block)
        lines = [
            f"{self.blocks.locator(block)} is {decision.category}",
            f"wanted: {', '.join(wanted) or 'no copy'}; needed by {', '.join(roots) or 'nothing'}",
        ]
        for slot in decision.slots:
            mount = slot.mount
            place = f"{slot.rank + 1}. server {mount.server}, volume {mount.volume}"
            here = "no copy" if slot.mtime is None else f"a copy of {_text(slot.mtime)}"
            lines.append(f"{place}: {here}; {slot.action}: {self._reason(slot, decision)}")
        return lines

    def _reason(self, slot: Slot, decision: Decision) -> str:
        oldest, mtime = self._oldest, slot.mtime
        reasons = (
            (slot.chosen, f"chosen for {', '.join(slot.chosen)}"),
            (mtime is None, "no class needs this place"),
            (slot.action is Action.TRASH, "not needed here, and old enough"),
            (not slot.mount.trashable, "nothing may be trashed here"),
            (decision.short, f"all stay while {', '.join(decision.short)} has too few copies"),
            (mtime in decision.unsafe, "it counts until the chosen places have their copies"),
            (mtime and mtime >= oldest, f"not needed here, but younger than {_text(oldest)}"),
            (True, "not needed here, but a copy of the same time goes first"),
        )
        return next(reason for holds, reason in reasons if holds)


def _ranks(weights: NDArray[np.uint64]) -> Numbers:
    return np.argsort(np.argsort(~weights, 1, kind="stable"), 1)


def _text(nanoseconds: int) -> str:
    return f"{from_unix_us(nanoseconds // 1000):%Y-%m-%d %H:%M:%S} UTC"
