"""Computes the expected content from a victim's lines, and compares it with the real content."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.real.torture.expected import Facts, Line, State, after, facts, look
from tests.real.torture.operations import OWNERS, Operation

_SHARED = ("commit", "main")
"""What it commits depends on other owners."""


_STAGE = {"put", "link", "delete"}

_REPEATED = {"link", "delete", "publish"}
"""These are repeated after a crash, because they have parts or leave a run behind."""


class Loss(AssertionError):
    """An acknowledged change is missing, or something is present that was never written."""


@dataclass
class Journal:
    """The lines of a victim, and the conclusions.

    Attributes:
        state: The certain state, after everything that was acknowledged.
        alone: Whether one thread did everything, so that the whole state is known exactly.
        pending: The operations with an unknown outcome, by owner.
        commits: The acknowledged commits by branch, without those of deleted branches.
        operations: The number of begun operations.
        acknowledged: The number of acknowledged changes.
        failed: The number of failures, by kind.
        dropped: Branches that were deleted or reset, even if they were made again.
    """

    state: State
    alone: bool
    pending: dict[int, Operation] = field(default_factory=dict)
    commits: dict[str, list[tuple[str, dict[str, str]]]] = field(default_factory=dict)
    operations: int = 0
    acknowledged: int = 0
    failed: list[str] = field(default_factory=list)
    dropped: set[str] = field(default_factory=set)
    _begun: dict[int, Operation] = field(default_factory=dict)
    _last: dict[str, list[str | None]] = field(default_factory=dict)
    _sure: dict[str, int] = field(default_factory=dict)
    _floor: dict[str, int] = field(default_factory=dict)
    _before: dict[int, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        main = self.state.lines["main"]
        for path in {*main.committed, *main.staged}:
            if path.startswith("s"):
                self._last[path] = [main.committed.get(path), main.shown.get(path)]
                self._sure[path], self._floor[path] = 1, 0

    def hear(self, lines: Iterable[dict[str, Any]]) -> None:
        """Process all lines of a victim.

        Raises:
            Loss: An answer to the victim was wrong.
        """
        for line in lines:
            if "will" in line:
                self._begin(Operation.read(line["will"]))
            elif "did" in line:
                self._end(self._begun.pop(line["did"]), line)
            elif "failed" in line:
                self.failed.append(line["error"])
            elif "crash" in line:
                raise Loss(f"the victim met an error of no kind of ours:\n{line['crash']}")
        for operation in self._begun.values():
            if operation.changes:
                owner = 0 if self.alone else operation.owner
                self.pending[owner] = operation
                if operation.name == "reset-to":  # the reset may drop acknowledged commits
                    self.dropped.add(operation.branch)
                    self.commits.pop(operation.branch, None)

    def _begin(self, operation: Operation) -> None:
        self.operations += 1
        self._begun[operation.number] = operation
        if operation.branch != "main":
            return
        if operation.name == "commit":
            self._before[operation.number] = dict(self._sure)
        for path, content in operation.writes.items():
            if operation.name in _STAGE:
                self._last.setdefault(path, [None]).append(content)
                self._sure.setdefault(path, 0)

    def _end(self, operation: Operation, line: dict[str, Any]) -> None:
        said = line.get("no", "ok")
        if not operation.changes:
            self._check_look(operation, line)
            return
        self.acknowledged += 1
        already = line["ok"][1] if operation.name == "merge" and said == "ok" else None
        self.state, expected = after(self.state, operation, already=already)
        said = "already" if already else said
        if said != expected and (self.alone or (operation.name, operation.branch) != _SHARED):
            raise Loss(f"{operation} says {line}, expected {expected}")
        if not self.alone:
            for other in self.state.lines.values():
                other.behind = None  # other owners move main all the time
        if operation.branch == "main":
            for path in operation.writes if operation.name in _STAGE else ():
                self._sure[path] = len(self._last[path]) - 1
            for path, index in self._before.pop(operation.number, {}).items():
                self._floor[path] = max(self._floor.get(path, 0), index)
        if said in {"ok", "already"} and operation.name in {"commit", "merge", "publish"}:
            made = line["ok"][0] if operation.name == "merge" else line["ok"]
            moved = operation.into or operation.branch
            tree = self.state.lines[moved].committed if self.alone else {}
            self.commits.setdefault(moved, []).append((made, tree))
        if operation.name in {"drop", "reset-to"}:
            self.commits.pop(operation.branch, None)
            self.dropped.add(operation.branch)

    def _check_look(self, operation: Operation, line: dict[str, Any]) -> None:
        seen = line.get("no", line.get("ok"))
        if operation.branch not in self.state.lines:
            shown: object = "RefNotFoundError"
        elif operation.name == "uncommitted" and not self.alone and operation.branch == "main":
            return  # other owners stage and commit
        else:
            shown = look(self.state, operation)
        if seen != shown:
            raise Loss(f"{operation} showed {seen}, expected {shown}")

    def check_shared(self, main: Line) -> None:
        """Check which staged writes of main the commits of several owners included.

        Raises:
            Loss: A path shows neither its last acknowledged write nor a write in progress, or its
                committed content is older than the last commit or newer than any write.
        """
        for path in {*self._last, *(p for p in main.shown if p.startswith("s"))}:
            versions = self._last.get(path, [None])
            shown = versions[self._sure.get(path, 0) :]
            committed = versions[self._floor.get(path, 0) :]
            if main.shown.get(path) not in shown:
                raise Loss(f"main shows {path}: {main.shown.get(path)!r}, one of {shown} expected")
            if main.committed.get(path) not in committed:
                found = main.committed.get(path)
                raise Loss(f"main has committed {path}: {found!r}, one of {committed} expected")


@dataclass(frozen=True)
class Verdict:
    """The outcome of a victim's operations.

    Attributes:
        state: The state now.
        landed: The number of operations that happened without an acknowledgement.
        unclear: Operations whose outcome the content does not show.
    """

    state: State
    landed: int
    unclear: tuple[Operation, ...]


def judge(journal: Journal, seen: State) -> Verdict:
    """Return what must have happened, from a victim's lines and the content after its end.

    Args:
        journal: The victim's lines.
        seen: The visible content: heads, trees and staged writes. The rest is unknown.

    Raises:
        Loss: No possible outcome explains the content.
    """
    state, landed = journal.state, 0
    unclear = []
    owners = [None] if journal.alone else list(range(OWNERS))
    for owner in owners:
        pending = journal.pending.get(owner or 0)
        there, old = facts(seen, owner), facts(journal.state, owner)
        if pending is None:
            _must_be(there, old, old, "nothing was under way")
            continue
        done, _ = after(state, pending)
        new = facts(after(journal.state, pending)[0], owner)
        if pending.name in {"link", "delete"}:
            _must_be(there, old, new, f"under way was {pending}")
            writes = {p: c for p, c in pending.writes.items() if _took(there, new, pending, p)}
            landed += bool(writes)
            state, _ = after(state, replace(pending, writes=writes))
        elif there == new:
            landed += old != new
            state = done if old != new else _unsure(state, done)
        else:
            _must_be(there, old, old, f"under way was {pending}")
        if old == new or pending.name in _REPEATED:
            unclear.append(pending)
    if not journal.alone:
        journal.check_shared(seen.lines["main"])
    return Verdict(_as_seen(state, seen, alone=journal.alone), landed, tuple(unclear))


def _unsure(before: State, after: State) -> State:
    """Return `after`, with ahead and behind unknown where they differ from `before`."""
    lines = {}
    for name, line in after.lines.items():
        known = before.lines.get(name, line)
        lines[name] = replace(
            line,
            ahead=line.ahead if line.ahead == known.ahead else None,
            behind=line.behind if line.behind == known.behind else None,
        )
    return State(lines, after.tags)


def _took(there: Facts, new: Facts, pending: Operation, path: str) -> bool:
    key = (pending.branch, "shown", path)
    return there.get(key) == new.get(key)


def _must_be(there: Facts, old: Facts, new: Facts, what: str) -> None:
    wrong = [
        f"{' '.join(key)}: found {there.get(key)!r}, expected {old.get(key)!r} or {new.get(key)!r}"
        for key in sorted({*there, *old, *new})
        if there.get(key) not in (old.get(key), new.get(key))
    ]
    if wrong:
        shown = "\n  ".join(wrong[:20])
        raise Loss(f"{len(wrong)} things are not as they must be ({what}):\n  {shown}")


def _as_seen(state: State, seen: State, *, alone: bool) -> State:
    """Return the known state, completed with the facts that only a read of the lake shows."""
    if alone:
        return state
    lines = {}
    for name, line in state.lines.items():
        there = seen.lines[name]
        staged = there.staged if name == "main" else line.staged
        lines[name] = replace(line, committed=there.committed, staged=staged, behind=None)
    return State(lines, state.tags)
