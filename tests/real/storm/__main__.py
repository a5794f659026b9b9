"""Writers in endless loops, fast hours, and a committer that is killed at every call.

    python -m tests.real.storm [FOLDER] [--stride N] [--policy hold|quarantine]

Every process is a fork of this one and opens the lake itself. In each hour, one tick is killed
(``kill -9``) before one of its calls to the stores, a later call with every hour. Then two ticks
run at the same time, and must return the same answer. The hours are good until a tick has been
killed at every call. Then bad hours follow: under ``quarantine`` each goes to a separate branch,
and under ``hold`` none is published. Every few hours the refused files are repaired, under
``quarantine`` only the last hour's.

Meanwhile another process publishes runs and rolls them back, and another collects garbage. Writers
and runs share paths, with equal bytes. After some hours the last move of main is undone, whatever
it was. At the end every file whose write was acknowledged must be on main, once, or in quarantine.
A file of runs must be there while one of its runs stands, and not longer.
"""

import argparse
import json
import logging
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import graveler
from graveler.base.background import Inline
from graveler.base.clock import RandomIds, SystemClock
from graveler.config import load_config
from graveler.errors import (
    MergeConflictError,
    PreconditionFailedError,
    RunStateError,
)
from graveler.fsck.check import fsck
from graveler.ingest import HourState
from graveler.kv.registry import open_kv
from graveler.lake.lake import Lake
from tests.harness.accounts import check_history
from tests.harness.faults import FaultyObjectStore, Script
from tests.harness.judges import no_bad_file
from tests.harness.worlds import tree
from tests.real.torture.kill_points import KillingKVStore

WRITERS = 4
START = datetime(2013, 1, 1, tzinfo=UTC)
HOUR_S = 0.02
MENDED = 6
PAUSE_S = 0.02  # between two files of a writer, so that hours stay short
KEYS = 6
COLLECT_S = 1.0
GRACE, WINDOW = "15s", "10s"  # much longer than an operation takes
NOW = timedelta()
SHARED = {"latest": b"1", "out/_SUCCESS": b"", "input/_READY": b"ready"}
"""The bytes of paths with many writers: runs and writers, runs only, writers only."""


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
        if status:
            traceback.print_exc()
        os._exit(status)


def _places(repo, ingestion):
    """Return the addresses of each path's objects, on main and in quarantine."""
    places = {entry.path: {entry.address} for entry in repo.ref("main").entries()}
    for kept in ingestion.quarantined():
        for change in repo.diff(f"{kept.head}~1", kept.name):
            if change.after is not None:
                places.setdefault(change.path, set()).add(change.after.address)
    return places


def _of_run(key):
    """Return the files of a run."""
    return {
        "latest": SHARED["latest"],
        "out/_SUCCESS": SHARED["out/_SUCCESS"],
        f"out/{key}": key.encode(),
    }


def _history(repo, head):
    """Return the ids of the commits of main up to a head, and the keys of the runs that stand."""
    commits = list(repo.log(head, first_parent=True))[::-1]
    standing = set()
    for commit in commits:
        if "graveler.published" in commit.metadata:
            standing.add(commit.metadata.get("graveler.run"))
        standing.discard(commit.metadata.get("graveler.rollback"))
    return {commit.id for commit in commits}, standing - {None}


def _check_runs(repo):
    """Fail unless main has the files of the runs that stand, and no others of runs."""
    view = repo.ref(repo.commit("main").id)
    history, standing = _history(repo, view)
    must = {path: body for key in standing for path, body in _of_run(key).items()}
    there = set(tree(view))
    assert must.keys() <= there, f"runs stand, main lacks {sorted(must.keys() - there)}"
    strange = {path for path in there if path.startswith("out/")} - must.keys()
    assert not strange, f"no run that stands has {sorted(strange)}"
    return history, must


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
        self.undone = 0
        self._random = random.Random(policy)
        self._parent = os.getpid()
        self._now = mmap.mmap(-1, 8)  # the present hour, shared with the writers
        with graveler.open(self.folder / "lake", create=True) as lake:
            repo = lake.create_repository("flights")
            repo.branch("main").put("settled", b"0")
            repo.branch("main").commit("base")
            repo.protection.add("main", ["write", "commit", "delete"])
            repo.ingestion().branch.put("input/first", b"0")

    def run(self):
        """Run the good and the bad hours, and check the result."""
        writers = [_fork(lambda number=number: self._write(number)) for number in range(WRITERS)]
        writers += [_fork(self._run_and_roll_back), _fork(self._collect)]
        try:
            self._rage("good")
            self._rage("bad")
            self._mend()
            ended = [writer for writer in writers if os.waitpid(writer, os.WNOHANG)[0]]
            assert not ended, f"{len(ended)} of the endless processes have failed"
        finally:
            for writer in writers:
                with suppress(ProcessLookupError, ChildProcessError):
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
                mine = f"{_folder(START + timedelta(hours=hour))}/w{number}-{count}"
                shared = ("latest", "input/_READY") if count % 5 == 0 else ()
                for path in (mine, *shared):
                    log.write(f"? {path}\n".encode())
                    branch.put(path, SHARED.get(path) or path.encode())
                    log.write(f"! {path}\n".encode())
                SystemClock().sleep(PAUSE_S)

    def _run_and_roll_back(self):
        """Publish runs with shared paths and roll them back, in an endless loop; log the commits."""
        logging.getLogger("graveler.runs").setLevel(logging.ERROR)  # each undo warns a run
        draw, opened = random.Random(self.policy), set()
        with (self.folder / "runs").open("wb", buffering=0) as log:
            repo = graveler.open(self.folder / "lake").repository("flights")
            while os.getppid() == self._parent:
                key = f"run {draw.randrange(KEYS)}"
                rolls_back = key in opened and draw.random() < 0.4
                opened.add(key)
                # an undo may come between: then the next attempt starts from main
                with suppress(MergeConflictError, RunStateError):
                    done = repo.runs.rollback(key) if rolls_back else self._publish(repo, key)
                    log.write(f"{done.commit.id}\n".encode())
                SystemClock().sleep(draw.random() * PAUSE_S * 10)

    def _publish(self, repo, key):
        run = repo.runs.open(key)
        with run.step("make") as step:
            step.put_many(_of_run(key))
        return run.publish()

    def _collect(self):
        """Collect garbage in an endless loop."""
        repo = graveler.open(self.folder / "lake").repository("flights")
        while os.getppid() == self._parent:
            repo.gc.run(grace=GRACE, window=WINDOW)
            SystemClock().sleep(COLLECT_S)

    def _undo(self):
        """Undo the last move of main, whatever it is, and log what main loses."""
        with graveler.open(self.folder / "lake") as lake:
            repo = lake.repository("flights")
            while True:
                with suppress(PreconditionFailedError):  # a run moved main at the same time
                    repo.undo("main")
                    break
            undo = next(move for move in repo.moves("main") if move.action == "undo")
            lost = _history(repo, undo.before)[0] - _history(repo, undo.after)[0]
            with (self.folder / "undone").open("a") as log:
                log.writelines(f"{commit}\n" for commit in lost)

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
            if self._random.random() < 0.3:
                self._undo()
                self.undone += 1
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
        # a rollback or an undo of main may meet a write of the same path
        on_conflict = "ingest" if self.policy == "hold" else "target"
        return repo.ingestion(gates=[no_bad_file], on_refusal=self.policy, on_conflict=on_conflict)

    def _mend(self):
        """Repair the refused files while the writers continue. The last hour is good again."""

        def work():
            with graveler.open(self.folder / "lake") as lake:
                repo = lake.repository("flights")
                ingestion = self._ingestion(repo)
                self._look(repo, ingestion)
                if self.policy == "hold":
                    branch = ingestion.branch
                    bad = [entry.path for entry in branch.entries() if entry.path.endswith(".bad")]
                    branch.delete_many(bad)
                for kept in ingestion.quarantined()[-1:]:  # the others remain in quarantine
                    shelf = repo.branch(kept.name)
                    shelf.delete_many(
                        [one.path for one in shelf.entries() if one.path.endswith(".bad")]
                    )
                    ingestion.release(kept.name, strategy="source-wins")

        assert os.waitpid(_fork(work), 0)[1] == 0
        hour = self._next_hour()
        answers = self._ticks(hour)
        assert len(answers) == 1, f"hour {hour}: two answers: {answers}"
        assert json.loads(answers.pop())["state"] == HourState.PUBLISHED, (hour, answers)

    def _look(self, repo, ingestion):
        """Fail if main is wrong about runs, or lacks an acknowledged file that waits nowhere."""
        _, told = self._told()
        there = set(_places(repo, ingestion)) | {one.path for one in ingestion.branch.entries()}
        assert told <= there, f"lost: {sorted(told - there)[:5]}"
        _check_runs(repo)

    def _check(self):
        """Raise if a file was lost or duplicated; return a line of figures."""
        begun, told = self._told()
        runs, undone = (
            set((self.folder / name).read_text().split()) for name in ("runs", "undone")
        )
        with graveler.open(self.folder / "lake") as lake:
            repo = lake.repository("flights")
            ingestion = self._ingestion(repo)
            ingestion.tick(START + timedelta(hours=self.hours))
            repo.gc.run(grace=NOW, window=NOW)  # all writers have ended
            report = fsck(repo.stores, objects="checksum")
            assert report.sound, report.problems[:5]
            history, must = _check_runs(repo)
            places = _places(repo, ingestion)
            texts = {
                path: {repo.stores.objects.get(address) for address in addresses}
                for path, addresses in places.items()
            }
            main = set(tree(repo.ref("main")))
            left = list(ingestion.branch.uncommitted())
            check_history(repo, ingestion)
        vanished = runs - history - undone
        assert not vanished, f"main lost moves that were not undone: {sorted(vanished)}"
        ingested = {path for path in SHARED if path in begun}
        allowed = {path: path.encode() for path in begun} | {"settled": b"0", "input/first": b"0"}
        allowed |= must | {path: SHARED[path] for path in ingested}
        # a write that overlaps a commit may be in it and in the next commit, as the same object
        doubled = [path for path, found in places.items() if len(found) > 1 and path not in SHARED]
        assert not doubled, f"two objects of one path: {sorted(doubled)[:5]}"
        lost = told - set(texts)
        assert not lost, f"lost: {sorted(lost)[:5]} and {len(lost)} in all"
        strange = set(texts) - set(allowed)
        assert not strange, f"no writer of it stands: {sorted(strange)[:5]}"
        wrong = [path for path, found in texts.items() if found != {allowed[path]}]
        assert not wrong, f"with another content: {wrong[:5]}"
        assert not left, left
        shelved = set(texts) - main
        kills = f"{self.killed['good']} in good hours, {self.killed['bad']} in bad ones"
        return (
            f"{self.policy:10}  {self.hours} hours, {len(told):,} files acknowledged; committers "
            f"killed: {kills}; {len(runs)} publishes and rollbacks of runs, {self.undone} undone "
            f"moves; on main {len(main) - 2:,}, in quarantine {len(shelved):,}, lost 0"
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
