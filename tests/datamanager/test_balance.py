"""The decision for one block: the cases of Arvados, and what holds for every block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.datamanager.balance import Action, Category, Mount, balance_block
from graveler.keep.placement import servers_for
from tests.datamanager import balance_cases
from tests.datamanager.balance_cases import BLOCKS, OLDEST, SERVERS, volume

CLASSES = ("default", "special")


def test_there_are_195_cases():
    assert len(set(balance_cases.cases())) == 195


@pytest.mark.parametrize("case", balance_cases.cases())
def test_cases_of_arvados(case):
    digest, mounts, mtimes, wanted, pull, trash, states = balance_cases.read(case)
    decision = balance_block(digest, mounts, mtimes, wanted, OLDEST)
    places = servers_for(digest, SERVERS)
    found = [
        [places.index(slot.mount.server) for slot in decision.slots if slot.action is action]
        for action in (Action.PULL, Action.TRASH)
    ]
    assert found == [pull, trash]
    numbers = {"n": decision.needed, "u": decision.unneeded, "p": decision.pulling}
    assert states in {"", "".join(f"{name}{count}" for name, count in numbers.items() if count)}


@pytest.mark.parametrize(
    ("wanted", "copies", "category"),
    [
        (2, "0 1", Category.BALANCED),
        (2, "0 1 2", Category.OVERREPLICATED),
        (2, "0", Category.UNDERREPLICATED),
        (17, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", Category.UNACHIEVABLE),
        (0, "0 3", Category.GARBAGE),
        (2, "", Category.LOST),
    ],
)
def test_categories(wanted, copies, category):
    digest, mounts, mtimes, wanted, *_ = balance_cases.read(
        f"one | 0 | default={wanted} | {copies} | | | |"
    )
    assert balance_block(digest, mounts, mtimes, wanted, OLDEST).category is category


@pytest.mark.parametrize(
    ("case", "trash"),
    [
        # equal mtimes may be one copy: the third is needed beside them
        ("one | 0 | default=2 | 0 1 2 | a a b | | |", []),
        ("one | 0 | default=2 | 0 1 2 5 | a a b c | | |", [5]),
        # a copy of another class does not stand for one of the class on the same server
        ("classes | 3 | special=2 | 0 0 1 | | | |", []),
    ],
)
def test_more_copies_stay_than_with_arvados(case, trash):
    digest, mounts, mtimes, wanted, *_ = balance_cases.read(case)
    decision = balance_block(digest, mounts, mtimes, wanted, OLDEST)
    assert [slot.rank for slot in decision.slots if slot.action is Action.TRASH] == trash


def test_a_copy_that_is_visited_twice_counts_once():
    digest = BLOCKS[0]
    places = servers_for(digest, SERVERS)
    mounts = [Mount(places[rank], volume(rank)) for rank in range(4)]
    mounts.append(Mount(places[9], volume(9), writable=False, trashable=False))
    mounts.append(Mount(places[9], volume(10)))
    held = {volume(3): 1, volume(9): 2, volume(10): 3}
    decision = decide(digest, mounts, held, {"default": 3})
    assert {slot.action for slot in decision.slots if slot.mtime} == {Action.STAY}


def test_what_nobody_needs_and_is_young_stays():
    digest, mounts, mtimes, *_ = balance_cases.read("one | 0 | default=0 | 0 1 | a B | | |")
    decision = balance_block(digest, mounts, mtimes, {}, OLDEST)
    assert [slot.rank for slot in decision.slots if slot.action is Action.TRASH] == [0]
    assert decision.category is Category.TRANSIENT


mounts_of_clusters = st.lists(
    st.builds(
        Mount,
        server=st.sampled_from(SERVERS[:4]),
        volume=st.integers(0, 7).map(volume),
        writable=st.booleans(),
        trashable=st.booleans(),
        replication=st.sampled_from([1, 1, 1, 2]),
        classes=st.sampled_from([CLASSES[:1], CLASSES[:1], CLASSES[1:], CLASSES]).map(frozenset),
        draining=st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda mount: (mount.server, mount.volume),
)


@st.composite
def clusters(draw):
    """Return mounts, and what is on their volumes; views of a volume differ in rights only."""
    mounts = draw(mounts_of_clusters)
    first = {mount.volume: mount for mount in reversed(mounts)}
    mounts = [
        Mount(
            *(mount.server, mount.volume, "", mount.writable, mount.trashable),
            first[mount.volume].replication,
            first[mount.volume].classes,
            mount.draining,
        )
        for mount in mounts
    ]
    times = st.none() | st.integers(OLDEST - 4, OLDEST + 1)
    held = draw(st.fixed_dictionaries(dict.fromkeys(sorted(first), times)))
    return mounts, {name: mtime for name, mtime in held.items() if mtime is not None}


def decide(digest, mounts, held, wanted):
    mtimes = {at: held[m.volume] for at, m in enumerate(mounts) if m.volume in held}
    return balance_block(digest, mounts, mtimes, wanted, OLDEST)


def present(mounts, held, name):
    """Return how many copies of a class there are; those of draining servers do not count."""
    return sum(
        {
            m.volume: m.replication
            for m in mounts
            if m.volume in held and name in m.classes and not m.draining
        }.values()
    )


def alike(mounts, held, name):
    """Return how many copies of a class there are if copies of one mtime are one copy."""
    least: dict[int, int] = {}
    for m in mounts:
        if m.volume in held and name in m.classes and not m.draining:
            mtime = held[m.volume]
            least[mtime] = min(least.get(mtime, m.replication), m.replication)
    return sum(least.values())


def apply(decision, held, now):
    """Return the volumes after both lists were worked."""
    held = dict(held)
    for at, slot in enumerate(decision.slots):
        if slot.action is Action.TRASH:
            assert held.pop(slot.mount.volume) == slot.mtime < OLDEST
            assert slot.mount.trashable
        elif slot.action is Action.PULL:
            assert (slot.mount.writable, slot.mount.draining) == (True, False)
            held[slot.mount.volume] = now - at
    return held


numbers = st.fixed_dictionaries({name: st.integers(0, 4) for name in CLASSES})


@given(cluster=clusters(), wanted=numbers, digest=st.sampled_from(BLOCKS))
def test_no_class_gets_fewer_copies_than_wanted(cluster, wanted, digest):
    mounts, held = cluster
    decision = decide(digest, mounts, held, wanted)
    before = {name: present(mounts, held, name) for name in CLASSES}
    trashed = {slot.mount.volume for slot in decision.slots if slot.action is Action.TRASH}
    left = {volume: mtime for volume, mtime in held.items() if volume not in trashed}
    gone = {held[volume] for volume in trashed}
    sure = {volume: mtime for volume, mtime in held.items() if mtime not in gone}
    if any(before[name] < wanted[name] for name in CLASSES):
        assert left == held
    for name in CLASSES:
        assert present(mounts, left, name) >= min(before[name], wanted[name])
        assert alike(mounts, sure, name) >= min(alike(mounts, held, name), wanted[name])


@given(cluster=clusters(), wanted=numbers, digest=st.sampled_from(BLOCKS))
def test_repeated_sweeps_come_to_rest(cluster, wanted, digest):
    mounts, held = cluster
    for at in range(6):
        decision = decide(digest, mounts, held, wanted)
        after = apply(decision, held, OLDEST - 100 * (at + 1))
        if after == held:
            break
        held = after
    else:
        pytest.fail(f"no rest: {held}")
    assert {slot.action for slot in decision.slots} <= {Action.STAY, Action.NOTHING, Action.LOST}
