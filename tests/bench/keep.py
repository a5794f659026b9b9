"""Keep: a server as a process of its own, on loopback, beside MD5 alone and the disk alone."""

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import NamedTuple

import psutil

import graveler
from graveler.base.local_files import sync_folder
from tests.bench.measure import Result, at_least, at_most, clocked, progress, reported

BLOCK = 64 << 20
BLOCKS = 12
SMALL = 4 << 10
SMALLS = 400
BUFFERS = 4
TOKEN = "grav-of-the-benchmark"
_BALANCE = Path(__file__).with_name("programs") / "balance_blocks.py"
_GIB = 1 << 30


class _Bytes(bytes):
    """The content of a block with its name, so that the client hashes nothing while it is measured."""

    digest: str
    locator: str


def _random(size: int) -> _Bytes:
    made = _Bytes(os.urandom(size))
    made.digest = md5(made, usedforsecurity=False).hexdigest()
    return made


class _Served(NamedTuple):
    address: str
    process: psutil.Process

    def cpu(self) -> float:
        """Return the CPU seconds of the server so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


def keep(folder: Path) -> list[Result]:
    """Measure puts and gets of large and small blocks, memory, and the data manager."""
    contents = [_random(BLOCK) for _ in range(BLOCKS)]
    progress("MD5 alone, and the disk alone")
    hashing = BLOCKS * BLOCK / clocked(lambda: _in_threads(contents, _hash, 2))
    disk = BLOCKS * BLOCK / clocked(lambda: _in_threads(contents, _Disk(folder / "disk"), 1))
    least = min(hashing, disk)
    results = []
    with _server(folder / "lake", folder / "volume") as served:
        for streams, limit in ((1, 0.65), (4, 0.80)):
            progress(f"puts of 64 MiB, {streams} streams")
            some = contents if streams == 1 else [_random(BLOCK) for _ in range(BLOCKS)]
            before = served.cpu()
            rate = BLOCKS * BLOCK / clocked(lambda: _in_threads(some, _Put(served), streams))  # noqa: B023 - called now
            cpu = (served.cpu() - before) / (BLOCKS * BLOCK / _GIB)
            results.append(
                at_least(
                    f"put of 64 MiB, {streams} streams",
                    rate / least,
                    limit,
                    "the lesser of MD5 on all cores and the disk with fdatasync",
                    f"{rate / _GIB:.2f} GiB/s beside {hashing / _GIB:.2f} and {disk / _GIB:.2f}",
                )
            )
            results.append(
                at_most(f"CPU of the server, {streams} streams", cpu, 3.3, "a second a GiB")
            )
        verified = _gets(served, contents, "?checksum=true")
        progress("small blocks")
        smalls = [_random(SMALL) for _ in range(SMALLS)]
        files = SMALLS / clocked(
            lambda: _in_threads(smalls, _Disk(folder / "files", named=True), 1)
        )
        puts = SMALLS / clocked(lambda: _in_threads(smalls, _Put(served), 1))
        gets = SMALLS / clocked(lambda: _in_threads(smalls, _Get(served), 1))
        memory = served.process.memory_info().rss
    with _server(folder / "lake", folder / "volume", "--no-verify") as served:
        before = served.cpu()
        unverified = _gets(served, contents, "")
        cpu = (served.cpu() - before) / (BLOCKS * BLOCK / _GIB)
    one_core = hashing / 2
    results += [
        at_least("verified get of 64 MiB", verified / one_core, 0.70, "MD5 on one core"),
        at_most("CPU of the server, unverified get", cpu, 0.8, "a second a GiB"),
        reported("unverified get of 64 MiB", f"{unverified / _GIB:.2f} GiB/s"),
        at_least(
            "put of 4 KiB",
            puts / files,
            0.3,
            "as many durable files",
            f"{puts:.0f}/s and {files:.0f}/s",
        ),
        at_least("get of 4 KiB", gets / 1500, 1, "1,500/s"),
        at_most(
            "memory of the server",
            memory / (BUFFERS * BLOCK + (100 << 20)),
            1,
            "buffers and 100 MiB",
        ),
    ]
    return [*results, *_balanced()]


def _balanced() -> Iterator[Result]:
    """Measure the data manager alone, on one core."""
    for copies in (1_000_000, 10_000_000):
        progress(f"{copies:,} replicas balanced")
        done = subprocess.run(
            [sys.executable, _BALANCE, f"{copies}", "0.05"],
            capture_output=True,
            text=True,
            check=True,
        )
        text = " ".join(done.stdout.split())
        reading, balancing, peak = map(float, re.findall(r"([0-9.]+) (?:s to|GiB)", text))
        if copies == 1_000_000:
            yield at_most(
                f"data manager, {copies:,} replicas", (reading + balancing) / 30, 1, "30 s", text
            )
        else:
            yield at_most(f"data manager, {copies:,} replicas", peak / 4, 1, "4 GiB", text)


def _gets(served: _Served, contents: list[_Bytes], query: str) -> float:
    progress(f"gets of 64 MiB {query}")
    return BLOCKS * BLOCK / clocked(lambda: _in_threads(contents, _Get(served, query), 1))


def _hash(content: bytes) -> None:
    md5(content, usedforsecurity=False).digest()


class _Disk:
    """Writes files, whose content is durable; with `named`, their names are too."""

    def __init__(self, folder: Path, *, named: bool = False) -> None:
        folder.mkdir()
        self._folder = folder
        self._named = named
        self._count = 0

    def __call__(self, content: bytes) -> None:
        self._count += 1
        with (self._folder / str(self._count)).open("wb") as file:
            file.write(content)
            file.flush()
            os.fdatasync(file.fileno())
        if self._named:
            sync_folder(self._folder)


class _Client:
    def __init__(self, served: _Served, query: str = "") -> None:
        self._authority = served.address.removeprefix("http://").rstrip("/")
        self._query = query
        self._local = threading.local()
        self._headers = {"Authorization": f"Bearer {TOKEN}"}

    def _sent(self, method: str, path: str, body: bytes | None = None) -> HTTPResponse:
        if not hasattr(self._local, "connection"):
            self._local.connection = HTTPConnection(self._authority)
        self._local.connection.request(method, path, body, self._headers)
        answer: HTTPResponse = self._local.connection.getresponse()
        assert answer.status == 200, answer.read()
        return answer


class _Put(_Client):
    def __call__(self, content: _Bytes) -> None:
        content.locator = self._sent("PUT", f"/{content.digest}", content).read().decode().strip()


class _Get(_Client):
    """Gets blocks into one memory: new memory for each takes the client longer than the server sends it."""

    def __init__(self, served: _Served, query: str = "") -> None:
        super().__init__(served, query)
        self._memory = memoryview(bytearray(BLOCK))

    def __call__(self, content: _Bytes) -> None:
        answer, size = self._sent("GET", f"/{content.locator}{self._query}"), 0
        while count := answer.readinto(self._memory[size:]):
            size += count
        assert size == len(content)


def _in_threads(contents: list[_Bytes], work: Callable[[_Bytes], None], count: int) -> None:
    threads = [
        threading.Thread(target=lambda at=at: deque(map(work, contents[at::count]), 0))
        for at in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def _server(lake: Path, volume: Path, *options: str) -> Iterator[_Served]:
    if not lake.exists():
        with graveler.init(lake) as made:
            made.keep.create("main")
    command = [sys.executable, "-m", "graveler", "--lake", str(lake), "keep", "serve", "main"]
    command += [str(volume), "--port", "0", "--token", TOKEN, "--buffers", str(BUFFERS), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert re.fullmatch("http://.*/", address), address
        try:
            yield _Served(address, psutil.Process(process.pid))
        finally:
            process.terminate()
