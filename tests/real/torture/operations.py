"""The operations of a victim: drawn at random, written as a line, and run on a repository.

Each owner (a thread of the victim) has its own paths. So the expected content after a crash is
exact, whatever other processes do:

- ``main`` takes staged writes below ``s<owner>/`` and merges of the owner's branches;
- the branches ``w<owner>-…`` are made from main, change ``m<owner>/…``, and are merged back;
  runs publish to main below ``m<owner>/`` as well.
"""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from graveler.model import Entry

OWNERS = 3
PATHS = 12
POOL = [f"pool {number}" for number in range(8)]
"""The contents of objects that victims link."""


@dataclass(frozen=True)
class Operation:
    """One call of the public API."""

    number: int
    owner: int
    name: str
    branch: str = ""
    writes: dict[str, str | None] = field(default_factory=dict)
    into: str = ""
    strategy: str | None = None
    prefix: str = ""
    message: str = ""

    @property
    def changes(self) -> bool:
        """Return whether it is more than a read."""
        return self.name not in LOOKS

    def line(self) -> dict[str, Any]:
        """Return it for a journal, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value or name == "number"}

    @classmethod
    def read(cls, line: dict[str, Any]) -> "Operation":
        """Return the operation of a line."""
        return cls(**{"owner": 0, **line})


LOOKS = {"get", "list", "list-head", "uncommitted"}
HOT = {"put": 6, "delete": 1, "commit": 3, "get": 1}
"""The weights of operations if all threads work on main."""

WEIGHTS = {
    "put": 24,
    "link": 8,
    "delete": 8,
    "commit": 16,
    "merge": 9,
    "merge-main": 5,
    "create": 6,
    "drop": 3,
    "reset": 3,
    "reset-to": 2,
    "publish": 4,
    "tag": 1,
    "untag": 1,
    "get": 6,
    "list": 5,
    "list-head": 3,
    "uncommitted": 2,
}


def own(branch: str) -> str:
    """Return the prefix of the paths that an owner changes on the branch itself."""
    return "s" if branch == "main" else f"m{branch[1]}/"


def digest(content: str) -> str:
    """Return the digest of a content that a listing shows."""
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def draw(  # noqa: C901, PLR0911 - a table of operations
    random: Random, number: int, owner: int, names: set[str], *, alone: bool, hot: bool = False
) -> Operation:
    """Draw the next operation of an owner.

    Args:
        random: The source of random numbers.
        number: The number of the operation, unique in the cycle.
        owner: The owner.
        names: The owner's branches and tags, which the call updates.
        alone: Whether no other process works, so that tags and all of main may be used.
        hot: Whether to only write to main and commit it.
    """
    branches = sorted(name for name in names if name.startswith(f"w{owner}-") and not hot)
    weights = HOT if hot else WEIGHTS
    name = random.choices(list(weights), list(weights.values()))[0]
    if name in {"merge", "merge-main", "drop", "reset-to"} and not branches:
        name = "create"
    if name in {"tag", "untag"} and not alone:
        name = "put"
    if name == "create":
        fresh = f"w{owner}-{random.randrange(2)}"
        names.add(fresh)
        return Operation(number, owner, name, fresh)
    if name == "drop":
        gone = random.choice(branches)
        names.discard(gone)
        return Operation(number, owner, name, gone)
    if name in {"merge", "merge-main"}:
        branch = random.choice(branches)
        source, into = (branch, "main") if name == "merge" else ("main", branch)
        strategy = random.choice([None, None, "source-wins", "dest-wins"])
        return Operation(number, owner, "merge", source, into=into, strategy=strategy)
    if name == "reset-to":
        return Operation(number, owner, name, random.choice(branches), into="main")
    if name == "publish":
        writes = _writes(random, "put", number, f"m{owner}/")
        by_step = random.choice(["", "step"])
        key = f"{random.getrandbits(32):08x} {number}"
        return Operation(number, owner, name, "main", writes, prefix=by_step, message=key)
    if name in {"tag", "untag"}:
        tag = f"v{random.randrange(3)}"
        return Operation(number, owner, name, "main", into=tag)
    branch = random.choice([*branches, "main"])
    if name == "reset" and branch == "main" and not alone:
        name = "commit"
    where = f"s{owner}/" if branch == "main" else own(branch)
    message = f"{name} {number}" if name == "commit" else ""
    if name == "list-head" and branch == "main":
        where = f"m{owner}/"
    prefix = "" if alone and random.random() < 0.5 else where
    writes = _writes(random, name, number, where)
    return Operation(number, owner, name, branch, writes, prefix=prefix, message=message)


def _writes(random: Random, name: str, number: int, where: str) -> dict[str, str | None]:
    def path() -> str:
        at = random.randrange(PATHS)
        return f"{where}{'ab'[at % 2]}/{at:02}"

    if name == "put":
        return {path(): f"{number} {random.getrandbits(32):08x}"}
    if name == "link":
        return {path(): random.choice(POOL) for _ in range(random.randint(2, 8))}
    if name == "delete":
        return dict.fromkeys(path() for _ in range(random.randint(1, 3)))
    return {path(): None} if name == "get" else {}


def pool_entry(path: str, content: str) -> Entry:
    """Return the entry of an object of the pool."""
    checksum = f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
    return Entry(path, f"data/{content.replace(' ', '-')}", len(content), checksum)


def execute(repo, operation: Operation) -> Any:
    """Run the operation; return its outcome for the journal."""
    return _CALLS[operation.name](repo, operation)


def _merge(repo, operation: Operation) -> list[Any]:
    done = repo.merge(operation.branch, operation.into, strategy=operation.strategy)
    return [done.commit.id, done.already]


def _put(repo, operation: Operation) -> None:
    ((path, content),) = operation.writes.items()
    repo.branch(operation.branch).put(path, (content or "").encode())


def _publish(repo, operation: Operation) -> str:
    ((path, content),) = operation.writes.items()
    with repo.run(operation.message) as run:
        if operation.prefix == "step":
            with run.step("work") as step:
                step.put(path, (content or "").encode())
        else:
            run.put(path, (content or "").encode())
    made: str = run.result.commit.id
    return made


def _link(repo, operation: Operation) -> None:
    entries = [pool_entry(path, content or "") for path, content in operation.writes.items()]
    repo.branch(operation.branch).link_many(entries)


def _delete(repo, operation: Operation) -> None:
    repo.branch(operation.branch).delete_many(list(operation.writes))


def _get(repo, operation: Operation) -> str:
    (path,) = operation.writes
    content: bytes = repo.branch(operation.branch).get(path)
    return content.decode()


def _uncommitted(repo, operation: Operation) -> dict[str, str]:
    changes = repo.branch(operation.branch).uncommitted()
    return {change.path: change.kind.value for change in changes}


def _nothing(answer: object) -> None:
    del answer  # the journal needs no answer


_CALLS: dict[str, Callable[[Any, Operation], Any]] = {
    "create": lambda repo, o: _nothing(repo.create_branch(o.branch)),
    "drop": lambda repo, o: repo.delete_branch(o.branch),
    "merge": _merge,
    "tag": lambda repo, o: _nothing(repo.tags.create(o.into, o.branch)),
    "untag": lambda repo, o: repo.tags.delete(o.into),
    "put": _put,
    "link": _link,
    "delete": _delete,
    "commit": lambda repo, o: repo.branch(o.branch).commit(o.message).id,
    "publish": _publish,
    "reset": lambda repo, o: repo.branch(o.branch).reset(),
    "reset-to": lambda repo, o: repo.branch(o.branch).reset(o.into),
    "get": _get,
    "list": lambda repo, o: _listing(repo.branch(o.branch), o.prefix),
    "list-head": lambda repo, o: _listing(repo.ref(o.branch), o.prefix),
    "uncommitted": _uncommitted,
}


def _listing(view, prefix: str) -> dict[str, str]:
    return {entry.path: entry.checksum.removeprefix("sha256:")[:8] for entry in view.list(prefix)}
