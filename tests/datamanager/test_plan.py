"""The plan of all blocks: equal to the decision for each, whatever the order of what comes in."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.datamanager import plan as plans
from graveler.datamanager.balance import Action, Mount, balance_block
from graveler.datamanager.blocks import Blocks, Source, Usage
from graveler.datamanager.indexes import COPY, keys
from graveler.datamanager.plan import ClassTally, Plan, Tally
from graveler.keep.locators import EMPTY, Locator
from graveler.keep.placement import servers_for

OLDEST = 1_700_000_000 * 10**9
LOCATORS = [Locator.of(bytes([at])) for at in range(20)] + [
    Locator("0" * 32, 1),
    Locator("0" * 32, 2),
    Locator("0" * 31 + "1", 1),
    Locator("f" * 32, 1),
]
POOL = st.sampled_from(LOCATORS)


def index(copies):
    """Return the index of a volume: locators with their mtimes."""
    rows = np.empty(len(copies), COPY)
    for name in ("high", "low", "size"):
        rows[name] = keys(copies)[name]
    rows["mtime"] = list(copies.values())
    return rows


def source(root, locators, wanted=None, classes=("default",)):
    return Source(root, root[:1], keys(locators), wanted, classes)


sources = st.lists(
    st.builds(
        source,
        st.sampled_from(["a1", "a2", "b1", "c1"]),
        st.lists(POOL, max_size=8),
        st.none() | st.integers(0, 4),
        st.sampled_from([(), ("default",), ("special",), ("default", "special")]),
    ),
    max_size=6,
)


def volume(number):
    return f"zzzzz-nyw5e-{number:015x}"


@st.composite
def clusters(draw):
    """Return mounts, the UUIDs of the volumes, and their indexes."""
    plain = draw(st.booleans())
    kind = "default" if plain else "special"
    mounts = [
        Mount(
            f"zzzzz-bi6l4-{server:015x}",
            volume(server * 2 + disk),
            replication=1 if plain else draw(st.sampled_from([1, 1, 2])),
            writable=plain or draw(st.integers(0, 3)) > 0,
            trashable=plain or draw(st.integers(0, 3)) > 0,
            draining=not plain and draw(st.integers(0, 2)) == 0,
            classes=frozenset([draw(st.sampled_from(["default", kind]))]),
        )
        for server in range(draw(st.integers(1, 4)))
        for disk in range(draw(st.integers(1, 2)))
    ]
    if draw(st.booleans()):
        mounts.append(replace(mounts[0], server=f"zzzzz-bi6l4-{9:015x}"))
    volumes = sorted({mount.volume for mount in mounts})
    times = st.integers(OLDEST - 30, OLDEST + 1)
    indexes = [index(draw(st.dictionaries(POOL, times, max_size=12))) for _ in volumes]
    return mounts, volumes, indexes


def listed(plan):
    """Return both lists of a plan by block and mount."""
    locator = plan.blocks.locator
    pulls = {(locator(block), mount) for block, mount in plan.pulls.tolist()}
    return pulls, {(locator(block), mount, mtime) for block, mount, mtime in plan.trash.tolist()}


@given(cluster=clusters(), roots=sources, chunk=st.sampled_from([1, 3, 1000]))
def test_all_blocks_are_decided_as_each_alone(cluster, roots, chunk):
    mounts, volumes, indexes = cluster
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "_CHUNK", chunk)
        plan = Plan(Blocks(indexes, roots, 2), mounts, volumes, OLDEST)
    pulls, trash, states = set(), set(), dict.fromkeys(plan.tallies(), 0)
    for locator in LOCATORS:
        one = keys([locator])[0]
        mtimes = {
            at: int(each["mtime"])
            for at, mount in enumerate(mounts)
            for each in indexes[volumes.index(mount.volume)]
            if each[["high", "low", "size"]].item() == one.item()
        }
        wanted = {"default": 0, "special": 0}
        for each in (each for each in roots if one in each.blocks):
            for name in each.classes or ("default",):
                wanted[name] = max(wanted[name], 2 if each.wanted is None else each.wanted)
        if mtimes or any(one in each.blocks for each in roots):
            decision = balance_block(locator.digest, mounts, mtimes, wanted, OLDEST)
            states[decision.category] += 1
            for slot in decision.slots:
                if slot.action is Action.PULL:
                    pulls.add((str(locator), slot.at))
                if slot.action is Action.TRASH:
                    trash.add((str(locator), slot.at, slot.mtime))
    assert listed(plan) == (pulls, trash)
    for each in plan.classes().values():
        assert each.wanted + each.surplus == each.present + each.missing
    assert {name: tally.blocks for name, tally in plan.tallies().items()} == states
    assert sum(tally.copies for tally in plan.tallies().values()) == sum(map(len, indexes))


@given(cluster=clusters(), roots=sources, data=st.data())
def test_the_order_of_roots_and_lines_does_not_matter(cluster, roots, data):
    mounts, volumes, indexes = cluster
    plan = Plan(Blocks(indexes, roots, 2), mounts, volumes, OLDEST)
    turned = [data.draw(st.permutations(range(len(each)))) for each in indexes]
    indexes = [each[order] for each, order in zip(indexes, turned, strict=True)]
    other = Blocks(indexes, data.draw(st.permutations(roots)), 2)
    for name, wanted in plan.blocks.wanted.items():
        assert wanted.tolist() == other.wanted[name].tolist()
    again = Plan(other, mounts[::-1], volumes, OLDEST)
    assert plan.tallies() == again.tallies()
    assert plan.blocks.usage() == other.usage()
    assert plan.confirmed() == again.confirmed()


A, B, C = (Locator.of(text) for text in (b"a" * 100, b"b" * 30, b"c" * 7))
MOUNTS = [Mount(f"zzzzz-bi6l4-{at:015x}", volume(at)) for at in range(3)]
VOLUMES = [mount.volume for mount in MOUNTS]


def planned(copies, roots, mounts=MOUNTS):
    return Plan(Blocks([index(each) for each in copies], roots, 2), mounts, VOLUMES, OLDEST)


def test_copies_of_another_class_are_not_those_that_are_wanted():
    roots = [source("a", [A], classes=("special",)), source("b", [B])]
    copies = [{A: 1, B: 1}, {A: 2, B: 2}, {A: 3, B: 3}]
    plans = [planned(copies, each) for each in (roots, roots[::-1])]
    for plan in plans:
        assert plan.tallies()["unachievable"].blocks == 1
        assert plan.tallies() == plans[0].tallies()


def test_a_block_without_a_copy_is_lost_on_read_only_volumes():
    mounts = [replace(mount, writable=False) for mount in MOUNTS]
    assert planned([{}, {}, {}], [source("a", [A])], mounts).tallies()["lost"].blocks == 1


def test_two_copies_on_one_server_are_not_enough():
    mounts = [*MOUNTS[:2], replace(MOUNTS[2], server=MOUNTS[1].server)]
    plan = planned([{}, {A: 1}, {A: 2}], [source("a", [A])], mounts)
    assert plan.pulls[:, 1].tolist() == [0]


def test_use_of_owners():
    roots = [
        source("a1", [A, B, EMPTY]),
        source("a2", [A, C]),
        source("b1", [B, B]),
        source("c", []),
    ]
    assert planned([{}, {}, {}], roots).blocks.usage() == (
        Usage("a", 137, 107, 15),
        Usage("b", 30, 0, 15),
        Usage("c", 0, 0, 0),
    )


def test_confirmed_is_the_least_of_a_roots_blocks():
    roots = [
        source("a", [A, EMPTY]),
        source("b", [A, B]),
        source("c", [A], 1),
        source("d", [A], 5),
        source("e", [A, C]),
        source("f", [A], 1, ("special",)),
        source("g", [EMPTY]),
    ]
    plan = planned([{A: 1, B: 2}, {A: 3}, {A: 4}], roots)
    assert plan.confirmed() == {"a": 2, "b": 1, "c": 1, "d": 3, "e": 0, "f": 0, "g": 2}


def test_copies_are_counted_by_class_without_those_that_drain():
    special = replace(MOUNTS[1], classes=frozenset({"default", "special"}), replication=2)
    mounts = [MOUNTS[0], special, replace(MOUNTS[2], draining=True)]
    roots = [source("a", [A, B], 3), source("b", [B], 1, ("special",))]
    plan = planned([{A: 1, B: 1}, {A: 2, C: 2}, {A: 3}], roots, mounts)
    assert plan.classes() == {"default": ClassTally(6, 6, 2, 2), "special": ClassTally(1, 4, 1, 4)}


def test_copies_dated_ahead_are_counted_by_server():
    mounts = [*MOUNTS[:2], replace(MOUNTS[2], server=MOUNTS[1].server)]
    plan = planned([{A: 5}, {A: 6, B: 7}, {C: 8}], [source("a", [A])], mounts)
    assert plan.ahead(5) == {MOUNTS[1].server: 3}
    assert plan.ahead(8) == {}


def test_a_volume_of_two_servers_slows_only_its_own_blocks(monkeypatch):
    mounts = [*MOUNTS, replace(MOUNTS[0], server=f"zzzzz-bi6l4-{9:015x}")]
    servers = {mount.server for mount in mounts}
    placed = next(n for n in LOCATORS if servers_for(n.digest, servers)[0] == MOUNTS[1].server)
    decided = []
    monkeypatch.setattr(Plan, "_decide_each", lambda _self, begin, odd, _ranks: decided.extend(odd))
    plan = planned([{C: 1}, {placed: 1}, {B: 1}], [source("a", [placed], 1)], mounts)
    assert [plan.blocks.locator(block) for block in decided] == [str(C)]


def test_a_line_twice_is_one_copy_of_the_later_time():
    twice = np.concatenate([index({A: OLDEST - 1}), index({A: OLDEST}), index({A: OLDEST - 2})])
    plan = Plan(Blocks([twice, index({}), index({})], [], 2), MOUNTS, VOLUMES, OLDEST)
    assert len(plan.trash) == 0
    assert plan.tallies()["transient"] == Tally(1, 1, 100)


def test_items_are_as_servers_read_them():
    plan = planned([{A: 1, B: 5}, {B: 6}, {B: 7}], [source("a", [A])])
    addresses = {mount.server: f"http://keep{at}" for at, mount in enumerate(MOUNTS)}
    assert len(plan.pulls) > 0
    assert [*plan.pull_items(plan.pulls, addresses)] == [
        {"locator": str(A), "servers": ["http://keep0"], "mount_uuid": VOLUMES[mount]}
        for _, mount in plan.pulls.tolist()
    ]
    assert [*plan.trash_items(plan.of_server(plan.trash, MOUNTS[1].server))] == [
        {"locator": str(B), "block_mtime": 6, "mount_uuid": VOLUMES[1]}
    ]
    assert plan.bytes_of(plan.trash) == 3 * 30


def test_the_fewest_copies_are_pulled_first():
    roots = [source("a", LOCATORS, 3)]
    plan = planned([dict.fromkeys(LOCATORS, 1), dict.fromkeys(LOCATORS[::2], 1), {}], roots)
    copies = plan.blocks.copies[plan.pulls[:, 0]].tolist()
    assert copies == sorted(copies)
    assert set(copies) == {1, 2}


def test_what_a_new_root_needs_is_spared():
    plan = planned([{A: 1, B: 2, C: 3}, {A: 4}, {}], [source("a", [C])])
    assert plan.spare(keys([A, EMPTY])) == 2
    assert [item["locator"] for item in plan.trash_items(plan.trash)] == [str(B)]


def test_lost_blocks_are_named_with_their_roots():
    plan = planned([{A: 1}, {}, {}], [source("a", [A, B]), source("b", [B]), source("c", [C], 0)])
    assert plan.lost(10) == {str(B): ("a", "b")}
    assert plan.lost(0) == {}


def test_an_explanation_has_a_reason_for_each_place():
    mounts = [*MOUNTS[:2], replace(MOUNTS[2], trashable=False, writable=False)]
    plan = planned([{A: 1, B: 2}, {A: OLDEST}, {A: 3}], [source("a", [A], 1)], mounts)
    text = "\n".join(
        line
        for block in range(len(plan.blocks))
        if plan.blocks.locator(block) == str(A)
        for line in plan.explain(block)
    )
    assert text.startswith(f"{A} is ")
    assert "wanted: 1 in class default; needed by a" in text
    for mount, reason in zip(
        mounts,
        ("trash: not needed here, and old", "younger than", "chosen for default"),
        strict=True,
    ):
        (line,) = (line for line in text.splitlines() if mount.volume in line)
        assert reason in line
