"""What operations use, by a profiler: files, calls, and calls on the two stores."""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_RUNS_AND_ABOVE = ("cli", "demo", "spark", "fs", "lake", "ingest", "runs", "gc", "fsck")
_GATES = ("gates", "publishing")
_KV_CALLS = ("get", "get_many", "set", "set_many", "set_if", "delete", "delete_if", "drop", "scan")
_OBJECT_CALLS = (
    *("put", "put_if_absent", "put_if_match", "get", "get_range"),
    *("open", "head", "delete", "list"),
)


@dataclass
class Profile:
    """What an operation used.

    Attributes:
        files: Files of the product, relative to the package.
        calls: Calls of the product's functions.
        kv: Calls on the key-value store by method, without those that a driver makes itself.
        objects: Calls on the object store by method.
    """

    files: set[str] = field(default_factory=set)
    calls: int = 0
    kv: Counter[str] = field(default_factory=Counter)
    objects: Counter[str] = field(default_factory=Counter)

    @property
    def packages(self) -> Counter[str]:
        """Return the number of files of each package."""
        return Counter(_package(file) for file in self.files)

    @property
    def floors(self) -> tuple[int, int, int]:
        """Return the number of files in runs and above, in gates, and in the engine."""
        packages = self.packages
        runs = sum(packages[name] for name in _RUNS_AND_ABOVE)
        gates = sum(packages[name] for name in _GATES)
        return runs, gates, len(self.files) - runs - gates


def _package(file: str) -> str:
    return file.split("/", maxsplit=1)[0] if "/" in file else "(root)"


class _Profiler:
    def __init__(self, package: Path) -> None:
        self._prefix = f"{package}/"
        self._starts: dict[CodeType, int] = {}
        self.profile = Profile()

    @contextmanager
    def measure(self) -> Iterator[Profile]:
        """Count the calls of the block in this thread."""
        self.profile = Profile()
        sys.setprofile(self._event)
        try:
            yield self.profile
        finally:
            sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(self._prefix):
            return
        code = frame.f_code
        # the resumption of a generator is no new call: it does not begin at the first instruction
        if self._starts.setdefault(code, frame.f_lasti) != frame.f_lasti:
            return
        file = code.co_filename.removeprefix(self._prefix)
        self.profile.files.add(file)
        self.profile.calls += 1
        for port, methods, counts in (
            ("KVStore", _KV_CALLS, self.profile.kv),
            ("ObjectStore", _OBJECT_CALLS, self.profile.objects),
        ):
            if code.co_name in methods and _is_of(frame, port) and not _is_of(frame.f_back, port):
                counts[code.co_name] += 1


def _is_of(frame: FrameType | None, port: str) -> bool:
    """Return whether a frame is a method of a driver or of a wrapper of a driver."""
    owner = None if frame is None else frame.f_locals.get("self")
    return any(kind.__name__ == port for kind in type(owner).__mro__)


def profile_operations(package: Path) -> dict[str, Profile]:
    """Return what each operation uses, in a lake of SQLite and local files."""
    operations: dict[str, Callable[[_Profiler, Any], Profile]] = {
        "put": _put,
        "join of a step": _join,
        "publish": _publish,
        "life of a run": _life,
    }
    # imported late, because the tree to measure may be another one: it is on the path by now
    from graveler.base.background import Inline
    from graveler.config import load_config
    from graveler.lake.factory import connect, init

    if not connect.__code__.co_filename.startswith(f"{package}/"):
        raise SystemExit(f"graveler is imported from {connect.__code__.co_filename}, not {package}")

    found: dict[str, Profile] = {}
    profiler = _Profiler(package)
    with tempfile.TemporaryDirectory() as folder:
        init(Path(folder) / "lake").close()
        with connect(load_config(Path(folder) / "lake"), background=Inline()) as lake:
            for name, operation in operations.items():
                # once without measuring, to leave out imports and caches of the process
                operation(profiler, lake.create_repository(f"warm-{len(found)}"))
                repository = lake.create_repository(f"measured-{len(found)}")
                found[name] = operation(profiler, repository)
    return found


def _gate(_: Any) -> None:
    """Accept everything."""


def _put(profiler: _Profiler, repository: Any) -> Profile:
    branch = repository.create_branch("dev", "main")
    with profiler.measure() as profile:
        branch.put("a", b"1")
    return profile


def _join(profiler: _Profiler, repository: Any) -> Profile:
    with repository.run("run") as run:
        step = run.step("step")
        handle = step.__enter__()
        handle.put("a", b"1")
        with profiler.measure() as profile:
            step.__exit__(None, None, None)
    return profile


def _publish(profiler: _Profiler, repository: Any) -> Profile:
    with repository.run("run", gates=[_gate]) as run:
        with run.step("step") as step:
            step.put("a", b"1")
        with profiler.measure() as profile:
            run.publish()
    return profile


def _life(profiler: _Profiler, repository: Any) -> Profile:
    with profiler.measure() as profile, repository.run("run", gates=[_gate]) as run:
        with run.step("step") as step:
            step.put("a", b"1")
    return profile
