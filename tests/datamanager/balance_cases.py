"""The cases of Arvados's keep-balance: 16 services, and where copies of a block are and shall be.

Copies, pulls and trash are given by the rank of the service for the block. Several copies of one
service are on its mounts in order. Times are letters, one for each mtime: small ones are older than
the time to live, capital ones are younger; without times all are old and differ.
"""

from dataclasses import replace

from graveler.datamanager.balance import Mount, usable
from graveler.keep.placement import servers_for

BLOCKS = (
    "10eab6008d5642cf42abd2aa41f847cb",
    "9a25b027482b37e047104e2e532cabae",
    "ece15765f11abfb7d3c71995a3d63bfe",
    "0c1728e2354416472350c906ca8b5718",
)
OLDEST = 1_700_000_000 * 10**9
SERVERS = [f"zzzzz-bi6l4-{at:015x}" for at in range(16)]

# setup | block | wanted | copies | times | pull | trash | needed, unneeded, pulling
TABLE = """
one | 0 | default=2 | 0 1 | | | | n2
one | 0 | default=2 | 0 2 1 | | | 2 | n2u1
one | 0 | default=0 | 0 1 3 | | | 0 1 3 | u3
one | 0 | default=4 | 0 1 | | 2 3 | | n2p2
read-only-service | 0 | default=4 | 0 1 | | 2 4 | | n2p2
no-write | 0 | default=4 | 0 1 | | 2 4 | | n2p2
no-write | 0 | default=2 | 0 3 | | 1 | |
no-write | 0 | default=2 | 0 1 3 | | | 3 |
one | 0 | default=2 | 2 0 | | 1 | |
one | 0 | default=2 | 2 7 | | 0 1 | |
one | 0 | default=2 | 2 1 7 | | 0 | 7 |
one | 0 | default=2 | 2 0 1 7 | | | 2 7 |
one | 0 | default=2 | 2 5 7 | | 0 1 | 7 |
four | 0 | default=2 | 0 0 | | 1 | |
four | 0 | default=2 | 2 2 | | 0 1 | |
four | 0 | default=2 | 0 0 1 | | | 0 |
four | 0 | default=2 | 1 1 0 | | | 1 |
four | 0 | default=2 | 1 0 1 0 2 | | | 0 1 2 |
four | 0 | default=2 | 1 1 1 0 2 | | | 1 1 2 |
four | 0 | default=2 | 1 1 2 | | 0 | 1 |
four | 0 | default=2 | 1 1 0 | a a b | | |
four | 0 | default=2 | 1 1 | | 0 | |
one | 0 | default=4 | 0 1 | a a | 2 3 | |
one | 0 | default=2 | 0 1 2 | a a a | | |
one | 0 | default=2 | 0 1 2 | a b b | | |
one | 0 | default=0 | 0 1 2 | a a a | | 0 |
one | 0 | default=2 | 0 1 2 5 6 | a b c c c | | 2 |
one | 0 | default=2 | 0 1 2 5 6 | a b d c c | | 2 5 |
one | 0 | default=2 | 0 1 2 5 6 | a b b c c | | 5 |
one | 0 | default=2 | 0 1 2 | a B C | | | n2u1
one | 0 | default=2 | 0 1 2 | B C a | | 2 | n2u1
same-volume | 0 | default=2 | 1 | | 2 | |
double | 0 | default=2 | 1 | | 0 | |
double | 0 | default=2 | 0 1 | | | |
double | 0 | default=2 | 0 1 2 | | | 2 |
double | 0 | default=3 | 0 2 3 4 | | 1 | 4 |
double | 0 | default=3 | 0 1 2 3 4 | | | 2 3 4 |
double | 0 | default=4 | 0 1 2 3 4 | | | 3 4 |
double | 1 | default=2 | 0 | | | |
double | 1 | default=3 | 0 | | 1 | |
double | 1 | default=4 | 0 | | 1 2 | |
double | 1 | default=4 | 2 | | 0 1 | |
double | 1 | default=4 | 7 | | 0 1 2 | |
double | 1 | default=2 | 1 2 3 4 | | 0 | 3 4 |
double | 1 | default=2 | 0 1 2 | | | 1 2 |
shared | 0 | default=2 | 1 | | 0 | |
shared | 1 | default=2 | 0 1 | | 2 | |
shared | 1 | default=2 | 2 | | 0 | |
shared | 0 | default=2 | 1 9 | | 0 | | n1p1
shared | 0 | default=2 | 0 1 9 | | | |
shared | 0 | default=2 | 0 1 5 9 12 | | | 5 12 | n2u2
classes | 0 | default=2 special=1 | 0 1 | | 9 | |
classes | 0 | special=1 | 0 1 | | 9 | |
classes | 0 | special=1 | 0 1 9 | | | 0 1 |
classes | 0 | special2=1 | 0 1 | | 5 | |
classes | 0 | special2=2 | 0 1 | | 5 9 | |
classes | 1 | default=2 special=1 | 0 1 | | 2 | |
classes | 1 | special2=3 | 3 | | 0 1 | |
classes | 3 | special=1 | 0 1 | | | 1 |
classes | 3 | special=2 | 0 1 | | | |
"""


def volume(number):
    return f"zzzzz-nyw5e-{number:015x}"


def plain(count):
    """Return the mounts of 16 services, `count` on each."""
    return [
        [Mount(server, volume(at * count + part)) for part in range(count)]
        for at, server in enumerate(SERVERS)
    ]


def at_rank(block, rank):
    return SERVERS.index(servers_for(BLOCKS[block], SERVERS)[rank])


def with_neighbours(how):
    """Return the mounts of each service: its own volume, and that of the next service."""
    own = [mounts[0] for mounts in plain(1)]
    return [
        [
            mount,
            replace(
                own[(at + 1) % 16],
                server=mount.server,
                writable=how == "rw",
                trashable=how != "ro",
            ),
        ]
        for at, mount in enumerate(own)
    ]


def mounts_of(setup, block):
    """Return the mounts of each service."""
    if setup.startswith("neighbours"):
        return with_neighbours(setup.partition(":")[2])
    services = plain(4 if setup == "four" else 1)
    if setup in {"read-only-service", "no-write"}:
        (mount,) = services[at_rank(block, 3)]
        mount = replace(mount, writable=False, trashable=setup == "no-write")
        services[at_rank(block, 3)] = [mount]
    elif setup == "same-volume":
        ours, theirs = at_rank(block, 0), at_rank(block, 1)
        services[ours] = [
            replace(services[theirs][0], server=SERVERS[ours], writable=False, trashable=False)
        ]
    elif setup == "double":
        for at in (0, 14):
            services[at] = [replace(services[at][0], replication=2)]
    elif setup == "shared":
        for at in (9, 14):
            services[at] = [replace(services[0][0], server=SERVERS[at])]
    elif setup == "classes":
        kinds = {9: ("special", "special special2"), 13: ("special2", "default")}
        for at, names in kinds.items():
            services[at] = [
                Mount(SERVERS[at], volume(100 + 2 * at + n), classes=frozenset(each.split()))
                for n, each in enumerate(names)
            ]
    return services


def neighbours():
    """Yield the cases in which each service has the volume of the next one, too."""
    for how in ("ro", "trash", "rw"):
        for rank in range(1, 16):
            gone = f"{rank}" if rank == 4 else f"0 {rank}" if how == "ro" else f"{rank} {rank}"
            for times, trash in (("", gone), ("a a a", ""), ("a b a", f"{rank}")):
                yield f"neighbours:{how} | 0 | default=1 | 0 {rank} {rank} | {times} | | {trash} |"


def cases():
    """Return all cases as texts."""
    return [*TABLE.strip().splitlines(), *neighbours()]


def read(case):
    """Return a case: digest, mounts, mtimes by mount, wanted, ranks of pulls and trash, states."""
    setup, block, wanted, copies, times, pull, trash, states = (
        field.strip() for field in case.split("|")
    )
    services = mounts_of(setup, int(block))
    mounts = [mount for each in services for mount in each]
    mounts = usable(mounts) if setup == "same-volume" else mounts
    ranks = [int(rank) for rank in copies.split()]
    times = times.split() or [chr(ord("a") + at) for at in range(len(ranks))]
    mtimes = {}
    for at, (rank, letter) in enumerate(zip(ranks, times, strict=True)):
        mount = services[at_rank(int(block), rank)][ranks[:at].count(rank)]
        age = -(10**14) if letter.islower() else 10**9
        mtimes[mounts.index(mount)] = OLDEST + age + ord(letter)
    return (
        BLOCKS[int(block)],
        mounts,
        mtimes,
        {name: int(number) for name, number in (each.split("=") for each in wanted.split())},
        [int(rank) for rank in pull.split()],
        [int(rank) for rank in trash.split()],
        states,
    )
