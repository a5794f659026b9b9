"""Puts beside trash lists, restores, emptiers, crashes and clocks that jump: no block is lost.

A block that was acknowledged as put, touched or restored is there, with its bytes, until it is as old as the
time to live.
"""

import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from os import utime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from graveler.errors import CorruptionError, ObjectNotFoundError, StateError
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
        self.kept = -TTL
        self.listed = None
        self.damaged = False
        self.stores = [self._open(), self._open()]

    @initialize(block=st.sampled_from(BLOCKS))
    def choose(self, block):
        self.block, self.name = block, digest(block)

    def teardown(self):
        self.patch.undo()
        self.place.cleanup()

    def _open(self):
        volume = made(self.kind, Path(self.place.name), self.clock)
        return BlockStore([volume], ttl=TTL, trash_life=LIFE, clock=self.clock)

    def _now(self):
        return self.clock.now().timestamp()

    def _damage(self):
        """Change the copy on disk, which is then no longer promised."""
        path = Path(self.place.name, "1", self.name[:3], self.name)
        if path.exists():
            content, mtime_ns = path.read_bytes(), path.stat().st_mtime_ns
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            utime(path, ns=(mtime_ns, mtime_ns))
            self.kept, self.damaged = -TTL, True

    def _act(self, number, action):
        """Let a server act. What it acknowledges is kept from now on, or longer."""
        store, since, name = self.stores[number], self._now(), self.name
        if action == "put of a damaged one":
            self._damage()
        acts = {
            "touch": lambda: store.touch(name),
            "untrash": lambda: store.untrash(name),
            "have": lambda: store.have([name], touch=True),
            "empty": lambda: next(iter(store.volumes.values())).empty(),
            "trash": lambda: store.trash(name),
            "trash the listed": lambda: store.trash(name, self.listed),
        }
        with suppress(ObjectNotFoundError):
            done = acts.get(action, lambda: put(store, self.block))()
            if action in {"touch", "untrash"} or (action == "have" and not done):
                self.kept = max(since, self.kept)
            elif action.startswith("put"):
                self.kept, self.damaged = max(since, self.kept), False

    ACTIONS = st.sampled_from(
        [
            *("put", *2 * ["put of a damaged one"], "touch", *2 * ["untrash"], "have"),
            *(*2 * ["trash"], *2 * ["trash the listed"], "empty"),
        ]
    )
    SECONDS = st.sampled_from([0, 1, LIFE + 1, TTL - 1, *4 * [TTL + 1], -1, -TTL])

    @rule(seconds=SECONDS, action=ACTIONS, at=st.integers(0, 9))
    def crash(self, seconds, action, at):
        self.clock.advance(seconds=seconds)
        for when in ("before", "after"):
            strike = self.calls.crash(at, when)
            with pytest.raises((Crash, KeyError)), self.calls.record(strike, waits=True):
                self._act(0, action)
                raise KeyError
            self.calls.close_left()
            self.stores[0] = self._open()

    @rule(
        is_new=st.sampled_from([False, False, True]),
        seconds=SECONDS,
        action=ACTIONS,
        others=st.lists(ACTIONS, max_size=2),
        at=st.sampled_from([*4 * [0], *range(10)]),
        meanwhile=st.sampled_from([0, 0, LIFE + 1, TTL + 1]),
    )
    def act_beside(self, is_new, seconds, action, others, at, meanwhile):
        """Between two calls of a server, time passes and the other one acts, unless it had to wait.

        None passes during a put: it would replace what the other one restored by an older copy. In one server
        they take turns, and a folder has one server.
        """
        if is_new:
            self._act(0, "put")
        self.clock.advance(seconds=seconds)

        def strike(number, call):
            if number >= at and not self.calls.locked:
                self.calls._strike = lambda _, each: each()
                self.clock.advance(seconds=0 if action.startswith("put") else meanwhile)
                for other in others:
                    self._act(1, other)
            return call()

        with self.calls.record(strike, waits=True):
            self._act(0, action)

    @invariant()
    def an_acknowledged_block_is_readable(self):
        now = self._now()
        if now - self.kept < TTL:
            self.stores[1].trash(self.name)  # which leaves it
        for store in self.stores:
            try:
                assert reads(store, self.block)
            except CorruptionError:
                assert self.damaged
            except ObjectNotFoundError:
                # gone for good: a clock that is set back later promises nothing
                assert now - self.kept >= TTL
                self.kept = -TTL
        self.listed = next((int(line.split()[1]) for line in self.stores[0].index()), None)


class SealedRaces(Races):
    """The same on a volume that is encrypted."""

    kind = DRIVERS[1]


TestFolder = Races.TestCase
TestSealed = SealedRaces.TestCase
TestFolder.settings = settings(max_examples=60, stateful_step_count=30)
TestSealed.settings = settings(max_examples=30, stateful_step_count=30)


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
