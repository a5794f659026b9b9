"""The lake of a refusal: a repository with some history, and how its process fails."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import graveler
from graveler.errors import BackendUnavailableError
from graveler.lake import Lake, Repository
from graveler.model import Commit
from graveler.testing import World
from graveler.testing.process import Process


class Weak(Process):
    """A process that can lose its stores, and races.

    Attributes:
        down: Whether no store answers.
        meanwhile: Called before each write of a branch's record, as by another process.
    """

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.meanwhile: Callable[[], object] | None = None

    @contextmanager
    def around(self, store: str, name: str, partition: str, key: str) -> Iterator[None]:
        """Let a call of a store happen, or fail."""
        if self.down:
            raise BackendUnavailableError(f"{name}: no answer")
        if self.meanwhile is not None and name == "set_if" and key.startswith("branch/"):
            self.meanwhile()
        with super().around(store, name, partition, key):
            yield


class Scene:
    """A repository ``flights`` that a situation changes and that a face then uses.

    Its ``main`` has the commits ``first`` (with ``a``) and ``second`` (with ``b``). The branch
    ``dev`` has one commit more (with ``d``), the tag ``v1`` is at ``first``.

    Attributes:
        lake: The lake that the face uses.
        process: The process of that lake, if it can fail.
        repo: The repository, as another process sees it.
        name: Name of the repository that the face uses.
        names: Values for the arguments of calls and for messages, as in ``{run}``.
        handle: The JSON of the run in which the face works.
        writable: Whether the face's process can write.
        strike: Called before the call, after the state was noted.
        heal: Called after it.
        around: The context of the call.
    """

    def __init__(self, lake: Lake, other: Lake, process: Weak | None = None) -> None:
        self.lake = lake
        self.process = process
        self.name = "flights"
        self.repo: Repository = other.create_repository(self.name)
        self.names: dict[str, str] = {}
        self.handle = ""
        self.writable = True
        self.strike: Callable[[], object] = lambda: None
        self.heal: Callable[[], object] = lambda: None
        self.around: Callable[[], AbstractContextManager[Any]] = nullcontext
        self._other = other
        self._situation: Callable[[Scene], None] | None = None
        first = self.commit("main", "first", a=b"a of main")
        self.commit("main", "second", b=b"b of main")
        self.repo.create_branch("dev")
        self.commit("dev", "third", d=b"d of dev")
        self.repo.tags.create("v1", first)

    def prepare(self, situation: "Callable[[Scene], None]") -> None:
        """Bring about a situation, once."""
        if self._situation is None:
            self._situation = situation
            situation(self)
        assert self._situation is situation

    def commit(self, branch: str, message: str, **files: bytes) -> Commit:
        """Commit files."""
        for path, body in files.items():
            self.repo.branch(branch).put(path, body)
        return self.repo.branch(branch).commit(message)

    def enter(self, run: graveler.Run) -> None:
        """Let the face work in a run."""
        self.handle = run.handle.to_json()
        self.names |= {"run": run.branch, "key": run.key}

    def state(self, *, but: frozenset[str] = frozenset()) -> Any:
        """Return what the lake has, without some parts of it."""
        return {
            name: {part: value for part, value in self._state(name).items() if part not in but}
            for name in self._other.repositories()
        }

    def _state(self, name: str) -> dict[str, Any]:
        repo = self._other.repository(name)
        branches = list(repo.branches(hidden=True))
        return {
            "heads": [(record.name, record.commit_id) for record in branches],
            "staged": {
                record.name: [
                    (change.kind, change.path, change.after)
                    for change in repo.branch(record.name).uncommitted()
                ]
                for record in branches
            },
            "tags": repo.tags.list(),
            "moves": list(repo.moves(hidden=True)),
            "rules": (repo.protection.list(), repo.gates.settings()),
            "runs": list(repo.runs.list()),
        }


def scene_in_memory() -> Scene:
    """Return a scene in the memory of this process."""
    world, process = World(), Weak()
    return Scene(world.open(process), world.open(), process)


def scene_in_folder(folder: Any) -> Scene:
    """Return a scene that other processes can open. Its stores cannot fail."""
    lake = graveler.open(folder, create=True)
    return Scene(lake, lake)
