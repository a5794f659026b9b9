"""Writers in endless loops, fast hours, and a committer that is killed at every call.

    python -m tests.real.storm [FOLDER] [--stride N] [--policy hold|quarantine]

Every process is a fork of this one and opens the lake itself. In each hour, one tick is killed
(``kill -9``) before one of its calls to the stores, a later call with every hour. Then two ticks
run at the same time, and must return the same answer. The hours are good until a tick has been
killed at every call. Then bad hours follow: under ``quarantine`` each goes to a separate branch,
and under ``hold`` none is published. Every few hours the refused files are repaired, under
``quarantine`` only the last hour's. At the end every file whose write was acknowledged must be on
main, once, or in quarantine.
"""

import argparse
import json
import mmap
import os
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import graveler
from graveler.clock import RandomIds, SystemClock
from graveler.config import load_config
from graveler.ingest import HourState
from graveler.kv.registry import open_kv
from graveler.lake.lake import Lake
from graveler.process import Inline
from graveler.testing.faults import FaultyObjectStore, Script
from tests.harness.accounts import check_history
from tests.harness.judges import no_bad_file
from tests.harness.worlds import tree
from tests.real.torture.kill_points import KillingKVStore

WRITERS = 4
START = datetime(2013, 1, 1, tzinfo=UTC)
HOUR_S = 0.02
MENDED = 6
PAUSE_S = 0.02  # between two files of a writer, so that hours stay short


class _DeadlyLake(Lake):
    def __init__(self, *given, script, **named):
        super().__init__(*given, **named)
        self._script = script

    def _open_store(self, uri):
        return FaultyObjectStore(super()._open_store(uri), self._script)


def _suicide(call):
    del call
    os.kill(os.getpid(), signal.SIGKILL)


def _fork(work):
    """Run `work` in a child, whose exit status is 0 if it ended well; return the child's id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def _places(repo, ingestion):
    """Return the addresses of each path's objects, on main and in quarantine."""
    places = {entry.path: {entry.address} for entry in repo.ref("main").entries()}
    for kept in ingestion.quarantined():
        for change in repo.diff(f"{kept.head}~1", kept.name):
            if change.after is not None:
                places.setdefault(change.path, set()).add(change.after.address)
    return places


def _folder(moment):
    return f"input/{moment:%Y/%m/%d/%H:%M}"


class Storm:
    """The storm for one policy.

    Attributes:
        killed: The number of killed committers, by ``good`` and ``bad`` hours.
        hours: The number of hours.
    """

    def __init__(self, folder, policy, *, stride=1):
        self.folder, self.policy, self.stride = Path(folder), policy, stride
        self.killed: Counter[str] = Counter()
        self.hours = 0
        self._parent = os.getpid()
        self._now = mmap.mmap(-1, 8)  # the present hour, shared with the writers
        with graveler.open(self.folder / "lake", create=True) as lake:
            repo = lake.create_repository("flights")
            repo.branch("main").put("settled", b"0")
            repo.branch("main").commit("base")
            repo.protection.add("main")
            repo.ingestion().branch.put("input/first", b"0")

    def run(self):
        """Run the good and the bad hours, and check the result."""
        writers = [_fork(lambda number=number: self._write(number)) for number in range(WRITERS)]
        try:
            self._rage("good")
            self._rage("bad")
            self._mend()
        finally:
            for writer in writers:
                os.kill(writer, signal.SIGKILL)
                os.waitpid(writer, 0)
        return self._check()

    def _write(self, number):
        """Stage files in an endless loop; log each before and after its write."""
        with (self.folder / f"writer{number}").open("wb", buffering=0) as log:
            repo = graveler.open(self.folder / "lake").repository("flights")
            branch = repo.ingestion().branch
            count = 0
            while os.getppid() == self._parent:  # otherwise no process is left to stop it
                count += 1
                late = count % 7 == 0
                hour = self._hour() - (1 if late else 0)
                path = f"{_folder(START + timedelta(hours=hour))}/w{number}-{count}"
                log.write(f"? {path}\n".encode())
                branch.put(path, path.encode())
                log.write(f"! {path}\n".encode())
                SystemClock().sleep(PAUSE_S)

    def _hour(self):
        return struct.unpack("q", self._now[:])[0]

    def _next_hour(self):
        self.hours += 1
        self._now[:] = struct.pack("q", self.hours)
        SystemClock().sleep(HOUR_S)
        return START + timedelta(hours=self.hours - 1)

    def _rage(self, kind):
        """Run hours, each with a tick that dies one call later, until a tick ends alive."""
        number = 1
        while True:
            hour = self._next_hour()
            if kind == "bad":
                self._bad(hour)
            struck = self._killed(hour, number)
            self.killed[kind] += struck
            answers = self._ticks(hour)
            assert len(answers) == 1, f"hour {hour}: two answers: {answers}"
            expected = HourState.PUBLISHED
            if kind == "bad":
                held = self.policy == "hold"
                expected = HourState.HELD if held else HourState.QUARANTINED
            assert json.loads(next(iter(answers)))["state"] == expected, (hour, answers)
            if not struck:
                return
            number += self.stride
            if kind == "bad" and self.hours % MENDED == 0:
                self._mend()  # otherwise hours grow, and so does the number of calls

    def _bad(self, hour):
        """Stage a bad file, in a separate process."""
        path = f"{_folder(hour)}/x.bad"

        def work():
            with graveler.open(self.folder / "lake") as lake:
                lake.repository("flights").ingestion().branch.put(path, path.encode())
            with (self.folder / "bad").open("ab") as log:
                log.write(f"! {path}\n".encode())

        assert os.waitpid(_fork(work), 0)[1] == 0

    def _killed(self, hour, number):
        """Run a tick that dies before call `number`; return whether it made so many calls."""

        def work():
            script = Script()
            config = load_config(self.folder / "lake")
            clock = SystemClock()
            lake = _DeadlyLake(
                config,
                KillingKVStore(open_kv(config.kv_uri), script),
                clock=clock,
                ids=RandomIds(clock),
                background=Inline(),
                script=script,
            )
            ingestion = self._ingestion(lake.repository("flights"))
            script.arm(number, _suicide)
            ingestion.tick(hour)

        status = os.waitpid(_fork(work), 0)[1]
        if os.WIFSIGNALED(status):
            return True
        assert status == 0, f"the tick of {hour} failed"
        return False

    def _ticks(self, hour):
        """Run two ticks of one hour at the same time; return their different answers."""
        files = [self.folder / f"tick{number}" for number in range(2)]

        def work(file):
            with graveler.open(self.folder / "lake") as lake:
                tick = self._ingestion(lake.repository("flights")).tick(hour)
                answer = {
                    "state": tick.state,
                    "published": tick.published and tick.published.id,
                    "quarantined": tick.quarantined,
                }
                if tick.state is not HourState.HELD:  # a held hour may take repairs
                    answer["commit"] = tick.commit and tick.commit.id
                file.write_text(json.dumps(answer))

        children = [_fork(lambda file=file: work(file)) for file in files]
        for child in children:
            assert os.waitpid(child, 0)[1] == 0, f"a tick of {hour} failed"
        return {file.read_text() for file in files}

    def _ingestion(self, repo):
        return repo.ingestion(gates=[no_bad_file], on_refusal=self.policy)

    def _mend(self):
        """Repair the refused files while the writers continue. The last hour is good again."""

        def work():
            with graveler.open(self.folder / "lake") as lake:
                repo = lake.repository("flights")
                ingestion = self._ingestion(repo)
                if self.policy == "hold":
                    branch = ingestion.branch
                    bad = [entry.path for entry in branch.entries() if entry.path.endswith(".bad")]
                    branch.delete_many(bad)
                for kept in ingestion.quarantined()[-1:]:  # the others remain in quarantine
                    shelf = repo.branch(kept.name)
                    shelf.delete_many(
                        [one.path for one in shelf.entries() if one.path.endswith(".bad")]
                    )
                    ingestion.release(kept.name)

        assert os.waitpid(_fork(work), 0)[1] == 0
        hour = self._next_hour()
        answers = self._ticks(hour)
        assert len(answers) == 1, f"hour {hour}: two answers: {answers}"
        assert json.loads(answers.pop())["state"] == HourState.PUBLISHED, (hour, answers)

    def _check(self):
        """Raise if a file was lost or duplicated; return a line of figures."""
        begun, told = self._told()
        with graveler.open(self.folder / "lake") as lake:
            repo = lake.repository("flights")
            ingestion = self._ingestion(repo)
            ingestion.tick(START + timedelta(hours=self.hours))
            places = _places(repo, ingestion)
            texts = {
                path: {repo.stores.objects.get(address).decode() for address in addresses}
                for path, addresses in places.items()
            }
            main = set(tree(repo.ref("main")))
            left = list(ingestion.branch.uncommitted())
            check_history(repo, ingestion)
        # a write that overlaps a commit may be in it and in the next commit, as the same object
        doubled = [path for path, addresses in places.items() if len(addresses) > 1]
        assert not doubled, f"two objects of one path: {sorted(doubled)[:5]}"
        lost = told - set(texts)
        assert not lost, f"lost: {sorted(lost)[:5]} and {len(lost)} in all"
        strange = set(texts) - begun - {"settled", "input/first"}
        assert not strange, f"never written: {sorted(strange)[:5]}"
        wrong = [path for path in begun & set(texts) if texts[path] != {path}]
        assert not wrong, f"with another content: {wrong[:5]}"
        assert not left, left
        shelved = set(texts) - main
        kills = f"{self.killed['good']} in good hours, {self.killed['bad']} in bad ones"
        return (
            f"{self.policy:10}  {self.hours} hours, {len(told):,} files acknowledged; committers "
            f"killed: {kills}; on main {len(main) - 2:,}, in quarantine {len(shelved):,}, lost 0"
        )

    def _told(self):
        """Return the paths of begun writes, and of acknowledged writes."""
        begun, told = set(), set()
        for log in [*self.folder.glob("writer*"), *self.folder.glob("bad")]:
            for line in log.read_text().splitlines():
                mark, _, path = line.partition(" ")
                begun.add(path)
                if mark == "!":
                    told.add(path)
        # a repaired bad file is deleted, under either policy
        mended = {path for path in told if path.endswith(".bad")}
        return begun, told - mended


def main(arguments):
    """Run the requested storms, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.real.storm")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--stride", type=int, default=1, help="every how many calls one dies")
    parser.add_argument("--policy", choices=("hold", "quarantine"))
    asked = parser.parse_args(arguments)
    for policy in [asked.policy] if asked.policy else ["hold", "quarantine"]:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(asked.folder or place) / policy
            folder.mkdir(parents=True)
            began = time.perf_counter()
            line = Storm(folder, policy, stride=asked.stride).run()
        sys.stdout.write(f"{line}  ({time.perf_counter() - began:.0f} s)\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
