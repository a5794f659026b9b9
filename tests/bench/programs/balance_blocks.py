"""Index and balance copies of many blocks on one core; print the seconds and the peak of memory.

Run: python tests/bench/programs/balance_blocks.py [COPIES] [PART OF BLOCKS OUT OF PLACE]
"""

import resource
import sys
import time

import numpy as np

from graveler.datamanager.balance import Mount
from graveler.datamanager.blocks import Blocks, Source
from graveler.datamanager.indexes import KEY, read_index
from graveler.datamanager.plan import Plan

SERVERS, DISKS, SIZE, CHUNK = 5, 2, 64 << 20, 1 << 16
OLD = 1_700_000_000 * 10**9


def mounts():
    return [
        Mount(f"zzzzz-bi6l4-{server:015d}", f"zzzzz-nyw5e-{server:07d}{disk:08d}")
        for server in range(SERVERS)
        for disk in range(DISKS)
    ]


def pieces(blocks, begin):
    """Yield the text of an index, in pieces of about 64 KiB."""
    for at in range(0, len(blocks), 1000):
        lines = [
            f"{high:016x}{low:016x}+{size} {begin + number}\n"
            for number, (high, low, size) in enumerate(blocks[at : at + 1000].tolist(), at)
        ]
        yield "".join(lines).encode()
    yield b"\n"


def placed(blocks, misplaced):
    """Return the blocks of each volume: two copies on the right servers, a part of them elsewhere."""
    all_mounts = mounts()
    empty = [np.empty(0, [*KEY.descr, ("mtime", "<i8")]) for _ in all_mounts]
    source = Source("lake", "lake", blocks)
    names = [mount.volume for mount in all_mounts]
    plan = Plan(Blocks(empty, [source], 2), all_mounts, names, OLD)
    best = np.concatenate(
        [
            np.argsort(~plan._weights(np.arange(at, min(at + CHUNK, len(blocks)))), 1)[:, :2]
            for at in range(0, len(blocks), CHUNK)
        ]
    )
    wrong = np.random.default_rng(2).random(len(blocks)) < misplaced
    best[wrong, 1] = (best[wrong, 0] + 1) % SERVERS
    disk = np.arange(len(blocks)) % DISKS
    volumes = best * DISKS + disk[:, None]
    return [blocks[(volumes == at).any(1)] for at in range(len(all_mounts))]


def main(copies=1_000_000, misplaced=0.05):
    blocks = np.zeros(copies // 2, KEY)
    rng = np.random.default_rng(1)
    blocks["high"] = rng.integers(0, 2**64, len(blocks), np.uint64)
    blocks["low"] = rng.integers(0, 2**64, len(blocks), np.uint64)
    blocks["size"] = SIZE
    blocks = blocks[np.argsort(blocks["high"])]
    held = placed(blocks, misplaced)
    reading, indexes = 0.0, []
    for at, each in enumerate(held):
        text = list(pieces(each, OLD + at * 10**9))
        begun = time.process_time()
        indexes.append(read_index(text, "server", f"{at}"))
        reading += time.process_time() - begun
        del text
    held.clear()
    begun = time.process_time()
    live = Source("lake", "lake", blocks)
    table = Blocks(indexes, [live], 2)
    joined = time.process_time()
    plan = Plan(table, mounts(), [mount.volume for mount in mounts()], OLD)
    planned = time.process_time()
    found = (plan.tallies(), table.usage(), plan.confirmed(), plan.classes(), plan.ahead(OLD))
    balancing = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{len(table.mtime):,} copies, {len(plan.pulls):,} pulls, {len(plan.trash):,} to trash: "
        f"{reading:.1f} s to read the indexes, {balancing:.1f} s to balance "
        f"(joining {joined - begun:.1f}, deciding {planned - joined:.1f}), peak {peak:.2f} GiB"
    )
    print({name: tally.blocks for name, tally in found[0].items() if tally.blocks})


if __name__ == "__main__":
    main(*(kind(value) for kind, value in zip((int, float), sys.argv[1:], strict=False)))
