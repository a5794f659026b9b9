"""Puts beside trash lists, restores, emptiers, crashes and clocks that jump: no block is lost.

A block that was acknowledged as put, touched or restored is there, with its bytes, until it is as old as the
time to live.
"""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from graveler.errors import ObjectNotFoundError, StateError
from graveler.keep import store as keep_store
from graveler.keep import transfers
from graveler.keep.locators import Locator
from graveler.keep.store import BlockStore
from graveler.testing.clock import FakeClock
from tests.harness.keep import Calls, Crash, digest, made
from tests.harness.programs import start_program

TTL, LIFE = 1000, 500
BLOCKS = [b"first", b"second" * 400]
DRIVERS = ("folder", "sealed-folder")


def put(store, block):
    store.put(digest(block), io.BytesIO(block), len(block))


def reads(store, block):
    with store.get(Locator.of(block)) as got:
        return bytes(got.content) == block


class Races(RuleBasedStateMachine):
    """Two servers on one folder. While one makes its system calls, the other one acts, or it dies."""

    kind = DRIVERS[0]

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module in (keep_store, transfers):
            self.patch.setattr(module, "LARGE_BYTES", 1000)  # a thread writes the second block
        self.calls = Calls(self.patch)
        self.place = TemporaryDirectory()
        self.clock = FakeClock()
        self.kept = {}
        self.seen = {}
        self.stores = [self._open(), self._open()]

    def teardown(self):
        self.patch.undo()
        self.place.cleanup()

    def _open(self):
        volume = made(self.kind, Path(self.place.name), self.clock)
        return BlockStore([volume], ttl=TTL, trash_life=LIFE, clock=self.clock)

    def _now(self):
        return self.clock.now().timestamp()

    def _act(self, number, action, block):
        """Let a server act. What it acknowledges is kept from now on, or longer."""
        store, since = self.stores[number], self._now()
        name = digest(block)
        try:
            if action == "put":
                put(store, block)
            elif action == "touch":
                store.touch(name)
            elif action == "untrash":
                store.untrash(name)
            elif action == "have":
                if store.have([name], touch=True):
                    return
            elif action == "empty":
                next(iter(store.volumes.values())).empty()
                return
            else:
                store.trash(name, self.seen.get(name) if action == "trash seen" else None)
                return
        except ObjectNotFoundError:
            return
        self.kept[name] = max(since, self.kept.get(name, since))

    ACTIONS = st.sampled_from(
        ["put", "put", "touch", "untrash", "have", "empty", "trash", "trash seen"]
    )

    @rule(action=ACTIONS, block=st.sampled_from(BLOCKS))
    def act(self, action, block):
        self._act(0, action, block)

    @rule(action=ACTIONS, block=st.sampled_from(BLOCKS), at=st.integers(0, 9))
    def crash(self, action, block, at):
        for when in ("before", "after"):
            with pytest.raises((Crash, KeyError)), self.calls.record(self.calls.crash(at, when)):
                self._act(0, action, block)
                raise KeyError
            self.calls.close_left()
            self.stores[0] = self._open()

    @rule(
        action=ACTIONS,
        other=ACTIONS,
        block=st.sampled_from(BLOCKS),
        at=st.integers(0, 9),
        seconds=st.sampled_from([0, 0, LIFE + 1, TTL + 1]),
    )
    def act_beside(self, action, other, block, at, seconds):
        """Between two calls of a server, time passes and the other one acts, unless it had to wait."""

        def strike(number, call):
            if number == at and not self.calls.locked:
                self.calls._strike = lambda _, each: each()
                self.clock.advance(seconds=seconds)
                self._act(1, other, block)
            return call()

        with self.calls.record(strike):
            self._act(0, action, block)

    @rule(seconds=st.sampled_from([1, LIFE - 1, LIFE + 1, TTL - 1, TTL + 1, 3 * TTL]))
    def time_passes(self, seconds):
        self.clock.advance(seconds=seconds)

    @rule(seconds=st.sampled_from([1, TTL]))
    def the_clock_is_set_back(self, seconds):
        self.clock.advance(seconds=-seconds)

    @rule()
    def a_list_is_made(self):
        lines = map(str.split, self.stores[1].index())
        self.seen = {name[:32]: int(mtime_ns) for name, mtime_ns in lines}

    @invariant()
    def an_acknowledged_block_is_readable(self):
        now = self._now()
        for block in BLOCKS:
            name = digest(block)
            for store in self.stores:
                try:
                    assert reads(store, block)
                except ObjectNotFoundError:
                    # gone for good: a clock that is set back later promises nothing
                    assert now - self.kept.pop(name, -TTL) >= TTL
        assert not any(
            each["counters"].get("damaged") for each in self.stores[0].state()["volumes"]
        )


class SealedRaces(Races):
    """The same on a volume that is encrypted."""

    kind = DRIVERS[1]


TestFolder = Races.TestCase
TestSealed = SealedRaces.TestCase
TestFolder.settings = TestSealed.settings = settings(max_examples=60, stateful_step_count=30)


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_threads_on_one_block_lose_nothing(kind, tmp_path):
    """Puts, trash lists that are always late, restores and emptiers: a block that was just put is there."""
    clock = FakeClock()
    volume = made(kind, tmp_path, clock)
    stores = [BlockStore([volume], ttl=10, trash_life=1, clock=clock) for _ in range(2)]
    block, wrong = BLOCKS[0], []

    def write(number):
        for _ in range(60):
            since = clock.now()
            put(stores[number], block)
            try:
                right = reads(stores[1 - number], block)
            except ObjectNotFoundError:
                right = (clock.now() - since).total_seconds() >= 10
            if not right:
                wrong.append(number)

    def trash(number):
        for _ in range(120):
            stores[number].trash(digest(block))
            clock.advance(seconds=1)
            volume.empty()
            try:
                stores[number].untrash(digest(block))
                stores[number].delete(digest(block))
            except (ObjectNotFoundError, StateError):
                pass

    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(each, number) for each in (write, trash) for number in range(2)]
        for call in calls:
            call.result()
    assert wrong == []


@pytest.mark.parametrize("acknowledged", [1, 40, 90])
def test_what_a_killed_server_acknowledged_is_there(tmp_path, acknowledged):
    made("folder", tmp_path, FakeClock())
    with start_program("keep.programs.puts", tmp_path / "1") as program:
        names = [program.stdout.readline().strip() for _ in range(acknowledged)]
        program.kill()
        names += [
            line.strip() for line in program.stdout.read().splitlines(True) if line[-1] == "\n"
        ]
    assert len(names) >= acknowledged
    volume = made("folder", tmp_path, FakeClock())
    for name in names:
        with volume.open(name) as opened:
            assert digest(opened.file.read()) == name
    there = {stored.digest for stored in volume.index()}
    assert there.issuperset(names)
    for name in there:
        with volume.open(name) as opened:
            assert digest(opened.file.read()) == name
