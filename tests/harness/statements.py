"""The statements that an operation sends to the database of a lake, by name and key.

A statement is one call on the database. Each page of a scan is one. On PostgreSQL and MySQL, taking and
releasing a turn are two more.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import graveler
from graveler.base.background import Inline
from graveler.config import load_config
from graveler.kv.driver import Driver
from graveler.lake.factory import connect, write_default_config
from graveler.lake.repository import Repository
from graveler.model import Entry

LINKS = 1_000

_STATEMENTS = (
    *(
        "_get",
        "_get_group",
        "_get_many",
        "_set",
        "_set_chunk",
        "_set_if",
        "_delete",
        "_delete_if",
        "_drop",
    ),
    "_page",
)


@dataclass
class Statements:
    """The statements that a driver received, in order.

    Attributes:
        lines: One for each statement: its name, the kind of its partition, and its key.
    """

    lines: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)

    def __str__(self) -> str:
        return "\n".join(f"{number:3} {line}" for number, line in enumerate(self.lines, 1))


def observe(driver: Driver) -> Statements:
    """Return a list of the statements that the driver receives from now on."""
    seen = Statements()

    def observed(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        seen.lines.append(f"{name[1:]} {_shown(*arguments)}")
        return call(*arguments)

    for name in _STATEMENTS:
        if hasattr(driver, name):
            setattr(driver, name, partial(observed, name, getattr(driver, name)))
    if hasattr(driver, "_dialect"):
        take = driver._turns.take

        @contextmanager
        def taken(turn: str, patience: float) -> Iterator[bool]:
            seen.lines.append(f"take turn {turn.partition('/')[2]}")
            with take(turn, patience) as had:
                yield had
            seen.lines.append(f"give turn {turn.partition('/')[2]}")

        driver._turns.take = taken  # type: ignore[method-assign,assignment]
    return seen


def _shown(first: Any, key: Any = b"", *_: Any) -> str:
    if isinstance(first, str):
        return f"{first.partition(':')[0]} {_text(key)}"
    return ", ".join(f"{name.partition(':')[0]} {_text(key)}" for name, key in first)


def _text(key: Any) -> str:
    if isinstance(key, bytes):
        return key.decode("utf-8", "replace")
    return ", ".join(_text(item) for item, _ in key[:3]) + (" …" if len(key) > 3 else "")


@graveler.gate(prefix="input/")
def adds_files(candidate: graveler.Candidate) -> None:
    """Refuse a run that adds nothing."""
    assert next(candidate.changes("input/"), None), "the run adds no file"


def _put(repo: Repository, number: int) -> Callable[[], object]:
    branch = repo.create_branch(f"put-{number}", "main")
    return lambda: branch.put("input/a", b"%d" % number)


def _commit(repo: Repository, number: int) -> Callable[[], object]:
    branch = repo.create_branch(f"commit-{number}", "main")
    branch.put("input/a", b"%d" % number)
    return lambda: branch.commit("one change")


def _loop(repo: Repository, number: int) -> Callable[[], object]:
    address = f"data/loop-{number}"
    repo.stores.objects.put(address, b"%d" % number)

    def loop() -> None:
        branch = repo.create_branch(f"loop-{number}", "main")
        branch.link(f"loop/{number}", address=address)
        branch.commit("one link")
        repo.merge(branch.name, into="main")

    return loop


def _run(repo: Repository, number: int) -> Callable[[], object]:
    entries = [
        Entry(f"input/{number}/{link}", f"data/run-{number}/{link}", 4) for link in range(LINKS)
    ]
    for entry in entries:
        repo.stores.objects.put(entry.address, b"rows")

    def run() -> None:
        opened = repo.runs.open(f"hour {number}")
        opened.link_many(entries)
        opened.commit("files")
        opened.publish([adds_files])

    return run


def _steps(repo: Repository, number: int) -> Callable[[], object]:
    def steps() -> None:
        with repo.run(f"steps {number}") as run:
            for name in ("one", "two", "three"):
                with run.step(name) as step:
                    step.put(f"input/steps/{number}/{name}", b"%d" % number)

    return steps


OPERATIONS: dict[str, Callable[[Repository, int], Callable[[], object]]] = {
    "put": _put,
    "commit": _commit,
    "branch, link, commit, merge": _loop,
    "run of 1,000 links with a gate": _run,
    "run of three steps": _steps,
}
"""Functions, by name, that prepare an operation and return it."""


def statements_of(
    folder: Path,
    names: Iterable[str] = tuple(OPERATIONS),
    *,
    begin: Callable[[], object] = lambda: None,
    end: Callable[[], object] = lambda: None,
    **uris: Any,
) -> dict[str, Statements]:
    """Return the statements of operations in a process that has done each of them before.

    Args:
        folder: Folder of the lake, which has SQLite and local files unless `uris` names others.
        names: Names of `OPERATIONS`.
        begin: Called before each operation.
        end: Called after each operation.
        uris: ``kv_uri`` and ``storage_uri``.
    """
    write_default_config(folder, **uris)
    found: dict[str, Statements] = {}
    with connect(load_config(folder), background=Inline()) as lake:
        repo = lake.create_repository("flights")
        seen = observe(lake._kv)  # type: ignore[arg-type]
        for name in names:
            for number in range(2):
                operation = OPERATIONS[name](repo, number)
                seen.lines.clear()
                begin()
                operation()
                end()
            found[name] = Statements(list(seen.lines))
    return found
