"""Collections of Keep: names, permanence, versions, and for how long blocks are needed."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from graveler.collections.collections import Collections
from graveler.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.kv.store import KVWrapper
from graveler.testing.clock import FakeClock, SequenceIds

TTL = timedelta(days=14)
HOUR = timedelta(hours=1)
FOO = ". acbd18db4cc2f85cedef654fccc4a4d8+3 0:3:foo\n"
BAR = ". 37b51d194a7513e45b56f6524f2d51f2+3 0:3:bar\n"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def kv():
    return MemoryKVStore()


@pytest.fixture
def collections(kv, clock):
    return Collections(kv, "main", TTL, clock=clock, ids=SequenceIds())


def needed(collections):
    return sorted(collections.manifest(each) for each in collections.needed())


def test_a_collection_is_found_by_its_uuid_and_name(collections):
    made = collections.create(FOO, owner="ann", name="flights", properties={"hour": "05"})
    assert collections.get(made.uuid) == collections.find("ann", "flights") == made
    assert (collections.manifest(made), made.properties) == (FOO, {"hour": "05"})
    assert collections.find("bob", "flights") is None


def test_a_writer_that_took_too_long_is_refused(kv, clock, collections, monkeypatch):
    """A sweep has removed what it has written."""
    put = Collections._put_text

    def slow(self, *text):
        put(self, *text)
        clock.advance(TTL)
        self.remove_ended()

    monkeypatch.setattr(Collections, "_put_text", slow)
    with pytest.raises(NotFoundError, match="there is no collection"):
        collections.create(FOO, name="flights")
    assert list(kv.scan("collections:main")) == []


def test_hints_of_a_manifest_are_not_kept(collections):
    signed = FOO.replace("+3 ", f"+3+A{'0' * 40}@7fffffff ")
    assert collections.manifest(collections.create(signed)) == FOO


def test_a_long_manifest_is_kept_in_pieces(collections):
    text = "".join(f"./{number} {FOO[2:]}" for number in range(9_000))
    made = collections.create(text)
    assert made.pieces > 1
    assert collections.manifest(collections.get(made.uuid)) == text


@pytest.mark.parametrize(
    ("manifest", "options", "reason"),
    [
        ("foo", {}, "not a line of a manifest"),
        (FOO.replace("0:3", "0:4"), {}, "ends at byte 4"),
        (FOO, {"name": "a/b"}, "without /"),
        (FOO, {"name": "x" * 256}, "at most 255 bytes"),
        (FOO, {"name": ".."}, "not '.'"),
        (FOO, {"name": "grave-4zz18-07ff6b0c4449b52"}, "is the UUID of another"),
    ],
)
def test_what_is_no_collection_is_refused(collections, manifest, options, reason):
    with pytest.raises(InvalidInputError, match=reason):
        collections.create(manifest, **options)
    assert collections.page() == []


def test_a_name_is_unique_within_a_project(collections):
    first = collections.create(FOO, owner="ann", name="flights")
    with pytest.raises(AlreadyExistsError, match=f"{first.uuid} of ann has the name 'flights'"):
        collections.create(BAR, owner="ann", name="flights")
    other = collections.create(BAR, owner="bob", name="flights")
    assert [collections.find(owner, "flights") for owner in ("ann", "bob")] == [first, other]


@pytest.mark.parametrize("free", ["rename", "unname", "delete", "time"])
def test_a_name_that_is_given_up_can_be_taken(collections, clock, free):
    first = collections.create(FOO, owner="ann", name="flights")
    if free == "rename":
        collections.rename(first.uuid, "old")
    elif free == "unname":
        collections.rename(first.uuid, "")
    elif free == "delete":
        collections.delete(first.uuid)
    else:
        clock.advance(TTL)
    second = collections.create(BAR, owner="ann", name="flights")
    assert collections.find("ann", "flights") == second


def test_a_new_name_replaces_the_old_one(collections):
    made = collections.create(FOO, name="old")
    renamed = collections.rename(made.uuid, "new")
    assert collections.find("", "new") == renamed
    assert collections.find("", "old") is None


def test_an_ephemeral_collection_ends_after_its_time(collections, clock):
    made = collections.create(FOO)
    assert not made.is_persisted
    clock.advance(TTL - HOUR)
    assert collections.get(made.uuid) == made
    assert needed(collections) == [FOO]
    clock.advance(HOUR)
    with pytest.raises(NotFoundError, match="its time as an ephemeral one is over"):
        collections.get(made.uuid)
    for change in (collections.change, collections.demote, collections.delete):
        with pytest.raises(NotFoundError):
            change(made.uuid)
    assert needed(collections) == []
    assert collections.remove_ended() == 1


def test_a_persisted_collection_stays_until_it_becomes_ephemeral(collections, clock):
    made = collections.create(FOO, persisted=True)
    clock.advance(10 * TTL)
    assert collections.get(made.uuid).is_persisted
    collections.demote(made.uuid)
    clock.advance(TTL - HOUR)
    collections.demote(made.uuid)  # it is ephemeral already: the time does not begin again
    assert needed(collections) == [FOO]
    clock.advance(HOUR)
    assert needed(collections) == []


def test_an_ephemeral_collection_can_be_persisted_until_it_ends(collections, clock):
    made = collections.create(FOO)
    clock.advance(TTL - HOUR)
    collections.persist(made.uuid)
    clock.advance(TTL)
    assert collections.get(made.uuid).is_persisted
    late = collections.create(FOO)
    clock.advance(TTL)
    with pytest.raises(NotFoundError):
        collections.persist(late.uuid)


@pytest.mark.parametrize("persisted", [True, False])
def test_blocks_of_a_deleted_collection_stay_for_a_signature(collections, clock, persisted):
    made = collections.create(FOO, name="flights", persisted=persisted)
    collections.delete(made.uuid)
    with pytest.raises(NotFoundError):
        collections.get(made.uuid)
    assert collections.page() == []
    clock.advance(TTL - HOUR)
    assert needed(collections) == [FOO]
    assert collections.remove_ended() == 0
    clock.advance(HOUR)
    assert needed(collections) == []
    assert collections.remove_ended() == 1


def test_what_is_removed_leaves_no_key(collections, kv, clock):
    made = collections.create(FOO, owner="ann", name="flights")
    collections.change(made.uuid, manifest=BAR)
    collections.rename(made.uuid, "trains")
    clock.advance(2 * TTL)
    assert collections.remove_ended() == 1
    assert list(kv.scan("collections:main", b"")) == []


def test_a_change_keeps_the_state_before_it_as_a_version(collections):
    made = collections.create(FOO, name="flights")
    changed = collections.change(made.uuid, manifest=BAR, properties={"by": "ann"})
    assert changed.version == 2
    assert [collections.manifest(each) for each in collections.versions(made.uuid)] == [FOO]
    assert collections.manifest(collections.get(made.uuid)) == BAR
    assert needed(collections) == sorted([FOO, BAR])


def test_confirmed_copies_are_those_of_the_version_that_was_seen(collections):
    made = collections.create(FOO)
    collections.confirm(made, 2)
    assert collections.get(made.uuid).confirmed == 2
    collections.change(made.uuid, manifest=BAR)
    collections.confirm(made, 2)
    assert collections.get(made.uuid).confirmed is None


def test_a_page_is_sorted_and_goes_on(collections):
    made = [collections.create(FOO, owner="ann" if at % 2 else "bob").uuid for at in range(5)]
    first = collections.page(limit=2)
    rest = collections.page(after=first[-1].uuid)
    assert [each.uuid for each in (*first, *rest)] == sorted(made)
    assert [each.uuid for each in collections.page(owner="ann")] == sorted(made[1::2])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"replicas": -1}, "replicas"),
        ({"replicas": 1.5}, "replicas"),
        ({"replicas": 17}, "give 0 to 16"),
        ({"classes": "ssd"}, "classes"),
        ({"name": "\ud800"}, "name"),
        ({"owner": "\ud800"}, "owner"),
        ({"persisted": "yes"}, "persisted"),
    ],
)
def test_an_argument_without_a_meaning_is_refused(collections, options, reason):
    with pytest.raises(InvalidInputError, match=reason):
        collections.create(FOO, **options)
    made = collections.create(BAR)
    if "replicas" in options:
        with pytest.raises(InvalidInputError, match=reason):
            collections.change(made.uuid, **options)
    assert needed(collections) in ([BAR], [FOO, BAR], [BAR, FOO])
    assert [each.uuid for each in collections.page()] == [made.uuid]


@pytest.mark.parametrize("size", [(64 << 20) + 1, 1 << 32, 10**18])
def test_a_manifest_of_blocks_that_cannot_be_is_refused(collections, size):
    with pytest.raises(InvalidInputError, match="at most 67108864 bytes"):
        collections.create(f". {'a' * 32}+{size} 0:1:x\n")


def test_a_refused_name_leaves_nothing_that_is_kept(collections, clock):
    collections.create(FOO, name="flights")
    with pytest.raises(AlreadyExistsError):
        collections.create(BAR, name="flights", persisted=True)
    assert len(collections.page()) == 1
    clock.advance(TTL)
    assert needed(collections) == []


def test_a_collection_that_ends_meanwhile_is_not_persisted(kv, clock):
    between, ids = _Between(kv), SequenceIds()
    ours = Collections(between, "main", TTL, clock=clock, ids=ids)
    made = ours.create(FOO)
    between.at, between.work = 1, lambda: clock.advance(TTL)
    with pytest.raises(NotFoundError):
        ours.persist(made.uuid)


def test_what_is_persisted_is_new_to_a_sweep_that_runs(collections, clock):
    made = collections.create(FOO)
    began = clock.now()
    assert collections.persist(made.uuid).modified > began


def test_a_new_name_frees_the_old_one_at_once(kv, clock):
    collections = Collections(kv, "main", TTL, clock=clock, ids=SequenceIds())
    uuid = collections.create(FOO, name="old").uuid
    collections.rename(uuid, "new")
    assert [key for key, _ in kv.scan_below("collections:main", b"name/")] == [b"name//new"]


class _Between(KVWrapper):
    """Runs other work before a call of `set_if`, once."""

    def __init__(self, inner):
        super().__init__(inner)
        self.at: int = 0
        self.work: Any = None

    def set_if(self, *given):
        self.at -= 1
        if self.at == 0:
            self.work()
        return super().set_if(*given)


class _Dying(KVWrapper):
    """Ends before a write."""

    left = 0

    def _forward(self, call, *given, **named):
        if call.__name__.startswith(("set", "delete")):
            self.left -= 1
            if self.left == 0:
                raise SystemExit
        return super()._forward(call, *given, **named)


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("work", ["create", "change", "rename", "delete", "remove_ended"])
def test_a_writer_that_dies_leaves_no_key(kv, clock, work, at):
    dying = _Dying(kv)
    ours = Collections(dying, "main", TTL, clock=clock, ids=SequenceIds())
    uuid = ours.create(FOO, name="flights").uuid
    works = {
        "create": lambda: ours.create(FOO, name="others", persisted=True),
        "change": lambda: ours.change(uuid, manifest=BAR),
        "rename": lambda: ours.rename(uuid, "old"),
        "delete": lambda: ours.delete(uuid),
        "remove_ended": lambda: [clock.advance(TTL), ours.remove_ended()],
    }
    dying.left = at
    with suppress(SystemExit):
        works[work]()
    dying.left = 0
    for each in ours.page():
        assert ours.manifest(each) in {FOO, BAR}
        assert [found.version for found in ours.versions(each.uuid)] == list(range(1, each.version))
        ours.delete(each.uuid)
    assert {*needed(ours)} <= {FOO, BAR, ""}
    clock.advance(2 * TTL)
    ours.remove_ended()
    assert list(kv.scan("collections:main")) == []


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("within", range(1, 6))
def test_of_two_that_take_a_name_at_most_one_has_it(kv, clock, at, within):
    between, ids = _Between(kv), SequenceIds()
    ours = Collections(between, "main", TTL, clock=clock, ids=ids)
    inner = _Between(kv)
    theirs = Collections(inner, "main", TTL, clock=clock, ids=ids)
    one, other = ours.create(FOO).uuid, theirs.create(BAR).uuid
    answers = {}

    def take(collections, uuid):
        try:
            answers[uuid] = collections.rename(uuid, "flights").name
        except AlreadyExistsError:
            answers[uuid] = ""

    between.at, between.work = at, lambda: take(theirs, other)
    take(ours, one)
    if other not in answers:
        take(theirs, other)
    assert sorted(answers.values()) in (["", ""], ["", "flights"])
    holders = [each.uuid for each in ours.page() if each.name == "flights"]
    assert holders == [uuid for uuid, name in answers.items() if name]
    found = ours.find("", "flights")
    assert ([found.uuid] if found else []) == holders


def test_a_name_that_another_one_has_just_got_is_given_back(kv, clock):
    """Ours finds the key of theirs before their record has the name, and takes it after."""
    between, inner, ids = _Between(kv), _Between(kv), SequenceIds()
    ours = Collections(between, "main", TTL, clock=clock, ids=ids)
    theirs = Collections(inner, "main", TTL, clock=clock, ids=ids)
    one, other = ours.create(FOO).uuid, theirs.create(BAR).uuid
    found, named, late = Event(), Event(), []

    def begin():
        late.append(pool.submit(ours.rename, one, "flights"))
        assert found.wait(10)

    def wait():
        found.set()
        assert named.wait(10)

    between.at, between.work = 1, wait
    inner.at, inner.work = 2, begin
    with ThreadPoolExecutor(1) as pool:
        theirs.rename(other, "flights")
        named.set()
        with pytest.raises(AlreadyExistsError, match=other):
            late[0].result()
    kept = ours.find("", "flights")
    assert kept is not None
    assert kept.uuid == other


class Histories(RuleBasedStateMachine):
    """Random histories against a dictionary."""

    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.collections = Collections(
            MemoryKVStore(), "main", TTL, clock=self.clock, ids=SequenceIds()
        )
        self.model = {}  # uuid: (name, manifest, end or None, end of blocks or None)

    def _now(self):
        return self.clock.now()

    def _live(self):
        now = self._now()
        return {uuid: row for uuid, row in self.model.items() if row[2] is None or row[2] > now}

    def _pick(self, data):
        return data.draw(st.sampled_from(sorted(self._live())))

    @rule(
        name=st.sampled_from(["", "a", "b"]),
        manifest=st.sampled_from([FOO, BAR]),
        persisted=st.booleans(),
    )
    def create(self, name, manifest, persisted):
        taken = name and any(row[0] == name for row in self._live().values())
        end = None if persisted else self._now() + TTL
        try:
            made = self.collections.create(manifest, name=name, persisted=persisted)
        except AlreadyExistsError:
            assert taken
            now = self._now()
            for each in self.collections.needed():  # the refused one is deleted
                self.model.setdefault(each.uuid, ("", manifest, now, now + TTL))
        else:
            assert not taken
            self.model[made.uuid] = (name, manifest, end, end)

    @precondition(lambda self: self._live())
    @rule(data=st.data(), name=st.sampled_from(["", "a", "b"]))
    def rename(self, data, name):
        uuid = self._pick(data)
        taken = name and any(row[0] == name for other, row in self._live().items() if other != uuid)
        try:
            self.collections.rename(uuid, name)
        except AlreadyExistsError:
            assert taken
        else:
            assert not taken
            self.model[uuid] = (name, *self.model[uuid][1:])

    @precondition(lambda self: self._live())
    @rule(data=st.data(), change=st.sampled_from(["persist", "demote", "delete"]))
    def change(self, data, change):
        uuid = self._pick(data)
        getattr(self.collections, change)(uuid)
        name, manifest, end, _blocks = self.model[uuid]
        if change == "delete":
            self.model[uuid] = ("", manifest, self._now(), self._now() + TTL)
        elif change == "persist":
            self.model[uuid] = (name, manifest, None, None)
        elif end is None:
            self.model[uuid] = (name, manifest, self._now() + TTL, self._now() + TTL)

    @rule(days=st.sampled_from([0.5, 3, 14]))
    def wait(self, days):
        self.clock.advance(timedelta(days=days))

    @rule()
    def remove(self):
        self.collections.remove_ended()

    @invariant()
    def as_the_model_says(self):
        live = self._live()
        assert {each.uuid: each.name for each in self.collections.page()} == {
            uuid: row[0] for uuid, row in live.items()
        }
        for name in ("a", "b"):
            found = self.collections.find("", name)
            holders = [uuid for uuid, row in live.items() if row[0] == name]
            assert ([found.uuid] if found else []) == holders
        kept = {each.uuid for each in self.collections.needed()}
        now = self._now()
        assert kept == {u for u, row in self.model.items() if row[3] is None or row[3] > now}


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
