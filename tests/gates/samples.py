"""Gates that another process can import."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import graveler
from graveler.errors import BackendUnavailableError
from graveler.gates.isolation.child import _say

# ruff: noqa: TID251 - these gates use real time


@graveler.gate(reads="run", isolated=True)
def counts(candidate):
    candidate.report(
        files=len(list(candidate.entries())),
        added=[change.path for change in candidate.changes()],
        before=len(list(candidate.before.entries())),
        into=candidate.into,
        run=candidate.run.key,
        pid=os.getpid(),
        forked="pytest" in sys.modules,
        text=candidate.get("a/1").decode(),
    )


@graveler.gate(isolated=True)
def says_no(candidate):
    return f"{candidate.get('a/1').decode()} is too few"


def cannot_read(candidate):
    raise BackendUnavailableError("the store is too slow")


@graveler.gate(timeout=0.3)
def loops(candidate):
    while True:
        pass


@graveler.gate(isolated=True)
def kills_itself(candidate):
    os.kill(os.getpid(), signal.SIGKILL)


@graveler.gate(isolated=True)
def leaves(candidate):
    os._exit(3)


@graveler.gate(isolated=True)
def exits(candidate):
    sys.exit("enough")


@graveler.gate(memory=64 << 20)
def leaks(candidate):
    kept = []
    while True:
        kept.append(bytearray(8 << 20))


@graveler.gate(isolated=True)
def closes_everything(candidate):
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the channel can have any number
    time.sleep(600)


@graveler.gate(isolated=True)
def leaves_children(candidate):
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    forked = os.fork()
    if not forked:
        time.sleep(600)
    candidate.report(children=[orphan.pid, forked])


@graveler.gate(isolated=True)
def dies_with_children(candidate):
    if not os.fork():
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)


def lake_of(candidate):
    """Return the folder of the lake that holds a candidate's files."""
    file = Path(candidate.uris("settled")[0].removeprefix("file://"))
    return next(folder for folder in file.parents if (folder / "graveler.toml").exists())


@graveler.gate(isolated=True)
def opens_the_lake(candidate):
    with graveler.open(lake_of(candidate)) as lake:
        lake.repository("flights").branch("main").put("b", b"1")


@graveler.gate(timeout=60)
def writes_from_a_thread(candidate):
    said = []
    folder = lake_of(candidate)

    def work():
        try:
            with graveler.open(folder) as lake:
                lake.repository("flights").branch("main").put("b", b"1")
        except graveler.errors.GravelerError as error:
            said.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return said[0]


def asserts(candidate):
    assert len(list(candidate.entries())) > 100


@graveler.gate_factory
class AtLeast:
    """A check with a parameter."""

    def __init__(self, files):
        self.files = files

    def __repr__(self):
        return f"AtLeast({self.files})"

    def __call__(self, candidate):
        return len(list(candidate.entries())) >= self.files


@graveler.gate(prefix="bad/")
def no_bad_files(candidate):
    found = [entry.path for entry in candidate.entries("bad/")]
    return f"there are {', '.join(found)}" if found else None


@graveler.gate(prefix="x/")
def at_most_two_files(candidate):
    found = len(list(candidate.entries("x/")))
    return found <= 2 or f"{found} files"


MOST_FILES = 100


def few_files(candidate):
    return len(list(candidate.entries())) <= MOST_FILES


def told(candidate, message):
    """Send the publisher a message that a real gate never sends."""
    _say(candidate._source._channel, **message)


@graveler.gate(timeout=0.4)
def asks_and_reads_no_answer(candidate):
    while True:
        told(candidate, {"ask": ["read", "candidate", "large", 0, 1 << 22]})


@graveler.gate(timeout=0.4)
def says_a_byte_at_a_time(candidate):
    channel = candidate._source._channel
    channel.sendall(b"\0\x20\0\0")
    while True:
        channel.sendall(b" ")
        time.sleep(0.02)


@graveler.gate(timeout=0.4)
def begins_again_and_again(candidate):
    while True:
        told(candidate, {"begun": True})
        time.sleep(0.02)


@graveler.gate(timeout=0.4)
def asks_all_the_time(candidate):
    while True:
        list(candidate.entries())


@graveler.gate(isolated=True)
def leaves_listings(candidate):
    """Begin more listings than the publisher keeps open, and read the last one to its end."""
    started = [candidate.entries() for _ in range(66)]
    for listing in started:
        next(listing)
    return len(list(started[-1])) > 500 or "too few"


@graveler.gate(isolated=True)
def looks_around(candidate):
    reasons = []
    for look in (
        lambda: candidate.repository,
        lambda: candidate._source.stores,
        lambda: candidate._source._ask("get", "refs", b"branch/main".hex()),
        lambda: candidate._source._ask("scan", "refs", "", ""),
        lambda: candidate._source.find("0" * 64, b"settled"),
        lambda: list(candidate._source.past("")),
        candidate._source.now,
    ):
        try:
            look()
        except graveler.errors.InvalidInputError as error:
            reasons.append(str(error)[:60])
    candidate.report(reasons=reasons, environment=sorted(os.environ))


@graveler.gate(isolated=True, reads="anything")
def reads_anything(candidate):
    assert candidate.now().year > 2000
    assert candidate.run.key
    assert candidate.commit.message
    assert candidate.target.message
    assert candidate.get("large") == candidate.open("large").read()
    assert candidate.before.exists("settled")
    assert [change.path for change in candidate.changes()] == ["large"]
    assert len(list(candidate.entries())) == 2
    assert candidate.uris("large") == [candidate.uri(candidate.stat("large"))]
    assert not candidate.restores
    return "no repository" if candidate.repository else ""


@dataclass(frozen=True)
class Meets:
    """A check that passes if its partner runs at the same time."""

    folder: str
    own: str
    partner: str

    def __call__(self, candidate):
        Path(self.folder, self.own).touch()
        for _ in range(600):
            if Path(self.folder, self.partner).exists():
                return True
            time.sleep(0.05)
        return f"{self.partner} did not run beside {self.own}"


CALLED: list[object] = []


def delete_below(folder):
    CALLED.append(folder)


def delete_all(candidate):
    CALLED.append(candidate)


class Folder:
    """A class that is no gate."""

    def __init__(self, path):
        CALLED.append(path)

    def remove(self):
        CALLED.append(self)
