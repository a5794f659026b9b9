"""Carries out each operation of a history in a process of its own, on SQLite and local files."""

import os
import pickle
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from multiprocessing import Pipe
from pathlib import Path
from threading import Timer
from typing import Any

from graveler.base.background import Inline
from graveler.base.clock import SystemClock
from graveler.config import load_config
from graveler.lake.factory import connect, init
from tests.harness.worlds import SMALL
from tests.model.adapter import Product
from tests.model.drawing import Operation


class _Ahead(SystemClock):
    """A clock that is some hours ahead."""

    def __init__(self, hours: int) -> None:
        self.hours = hours

    def now(self) -> datetime:
        return super().now() + timedelta(hours=self.hours)


class _Opened(Product):
    """The repository as one process opens it."""

    def __init__(self, lake: Any) -> None:
        self.lake = lake
        self.repo = lake.repository("flights")
        self.handles, self.tries, self.made = {}, {}, {}

    def new_lake(self):
        """Do nothing: each operation has a lake of its own."""

    def restore(self):
        """Lose the key-value store, and restore a dump."""
        folder, clock = self.lake.folder, self.repo.stores.clock
        self.repo.dump_refs(folder / "refs")
        self.lake.close()
        for file in folder.glob("kv.sqlite3*"):
            file.unlink()
        self.lake = connect(load_config(folder / "graveler.toml"), clock=clock, background=Inline())
        self.repo = self.lake.restore_repository(folder / "refs", take_over=True)
        self.handles.clear()


class _Child:
    """A forked process that carries out operations and tells what has become of them."""

    def __init__(self, serve: Callable[[Any], None]) -> None:
        self._end, there = Pipe()
        self.pid = os.fork()
        if not self.pid:
            self._end.close()
            try:
                serve(there)
            finally:
                os._exit(0)
        there.close()

    def ask(self, question: Any) -> None:
        """Send an operation."""
        self._end.send_bytes(pickle.dumps(question))

    def answer(self) -> Any:
        """Return the answer, or None if the process was killed."""
        try:
            return pickle.loads(self._end.recv_bytes())
        except (EOFError, ConnectionResetError):
            return None

    def end(self) -> None:
        """End the process, and wait for it."""
        with suppress(OSError):  # it was killed
            self._end.send_bytes(pickle.dumps(None))
        self._end.close()
        os.waitpid(self.pid, 0)


class Processes:
    """A repository that only other processes open."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="graveler-model"))
        self.made: dict[int, str] = {}
        self._handles: dict[int, Any] = {}
        self._hours = 0
        self._steps: dict[int, _Child] = {}
        child = _Child(self._prepare)
        child.answer()
        child.end()

    def _prepare(self, _end: Any) -> None:
        init(self.folder).close()
        with self._open() as lake:
            lake.create_repository("flights", splitting=SMALL).create_branch("pr")

    def _open(self) -> Any:
        config = load_config(self.folder / "graveler.toml")
        lake = connect(config, clock=_Ahead(self._hours), background=Inline())
        lake.folder = self.folder  # type: ignore[attr-defined]
        return lake

    def _serve(self, end: Any) -> None:
        with self._open() as lake:
            product = _Opened(lake)
            while True:
                asked = pickle.loads(end.recv_bytes())
                if asked is None:
                    return
                question, product.handles, product.made = asked
                answer: Any = product.seen() if question is None else product.one(question)
                end.send_bytes(pickle.dumps((answer, product.handles, product.made)))

    def apply(self, operation: Operation) -> list[str]:
        """Carry out an operation; return the names of the classes of the error, for each part."""
        arguments = operation.arguments
        if operation.name == "time":
            self._hours += arguments["hours"]
            return [""]
        if operation.name == "join" and arguments["attempt"] not in self._steps:
            return ["FencedError"]  # its process has ended
        if operation.name == "race":
            parts = operation.parts()
            racing = [self._child(part) for part in parts]
            for part, child in zip(parts, racing, strict=True):
                self._ask(child, part)
            return [self._answer(part, child) for part, child in zip(parts, racing, strict=True)]
        if operation.name == "killed":
            (part,) = operation.parts()
            child = self._child(part)
            self._ask(child, part)
            timer = Timer(arguments["call"] / 1000, os.kill, (child.pid, signal.SIGKILL))
            timer.start()
            self._answer(part, child)
            timer.cancel()
            operation = part
        if operation.name == "restore":
            while self._steps:
                self._steps.popitem()[1].end()
        child = self._child(operation)
        self._ask(child, operation)
        return [self._answer(operation, child)]

    def _child(self, operation: Operation) -> _Child:
        if operation.name == "join":
            return self._steps.pop(operation.arguments["attempt"])
        return _Child(self._serve)

    def _ask(self, child: _Child, question: Operation | None) -> None:
        child.ask((question, self._handles, self.made))

    def _answer(self, operation: Operation, child: _Child) -> str:
        told = child.answer()
        if told is None:
            child.end()
            return "killed"
        error, handles, made = told
        if operation.name == "restore":
            self._handles.clear()
        self._handles.update(handles)
        self.made.update(made)
        if operation.name == "begin" and not error:
            self._steps[operation.label] = child
        else:
            child.end()
        return str(error)

    def seen(self) -> Any:
        """Return what another process sees."""
        child = _Child(self._serve)
        self._ask(child, None)
        seen, _, _ = child.answer()
        child.end()
        return seen

    def collect(self) -> None:
        """Collect garbage."""
        self.apply(Operation(0, "gc"))

    def fault(self) -> str:
        """Return what fsck finds, or ""."""
        with self._open() as lake:
            report = lake.repository("flights").fsck(objects="checksum")
        return "" if report.sound else f"fsck: {report}"

    def end(self) -> None:
        """End the processes, and remove the files."""
        for child in self._steps.values():
            child.end()
        shutil.rmtree(self.folder)
