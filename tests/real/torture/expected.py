"""The expected content: a repository as dicts, outside of the processes that are killed."""

from dataclasses import dataclass, field, replace

from graveler.model import ChangeKind
from tests.real.torture.operations import Operation, digest, own

Tree = dict[str, str]
Facts = dict[tuple[str, ...], str]
"""The visible content as (branch, ``committed`` or ``shown``, path) or (tag, …): content."""


@dataclass
class Line:
    """A branch.

    Attributes:
        head: The name of its commit.
        committed: The tree of its head.
        staged: The staged writes above it; None stands for a deletion.
        base: Its own paths when it last agreed with main.
        ahead: Whether it has commits that main does not have; None if that is unknown.
        behind: Whether main has commits that it does not have; None if that is unknown.
    """

    head: str
    committed: Tree = field(default_factory=dict)
    staged: dict[str, str | None] = field(default_factory=dict)
    base: Tree = field(default_factory=dict)
    ahead: bool | None = False
    behind: bool | None = False

    @property
    def shown(self) -> Tree:
        """Return the tree with staged writes."""
        laid = {**self.committed, **self.staged}
        return {path: content for path, content in laid.items() if content is not None}


@dataclass
class State:
    """All branches and tags of a repository. A tag is a head and its tree."""

    lines: dict[str, Line]
    tags: dict[str, tuple[str, Tree]] = field(default_factory=dict)


def after(state: State, operation: Operation, *, already: bool | None = None) -> tuple[State, str]:
    """Return the state after an operation, and its answer: ok, already or an error.

    Args:
        state: The state before.
        operation: The operation.
        already: The outcome of a merge, if the state does not determine it.
    """
    lines = {name: replace(line) for name, line in state.lines.items()}  # trees are never modified
    changed = State(lines, dict(state.tags))
    return changed, _apply(changed, operation, already)


def _apply(  # noqa: C901, PLR0911 - a table of operations
    state: State, operation: Operation, already: bool | None
) -> str:
    if operation.name == "create":
        return _create(state, operation.branch)
    if operation.name == "untag":
        return "ok" if state.tags.pop(operation.into, None) else "RefNotFoundError"
    line = state.lines.get(operation.branch)
    if line is None or (operation.name == "merge" and operation.into not in state.lines):
        return "RefNotFoundError"
    if operation.name == "merge":
        return _merge(state, operation, already)
    if operation.name == "commit":
        return _commit(state, operation)
    if operation.name == "tag":
        taken = state.tags.setdefault(operation.into, (line.head, line.committed))
        return "ok" if taken[0] == line.head else "AlreadyExistsError"
    if operation.name == "publish":
        line.committed = {**line.committed, **_there(operation.writes)}
        _moved(state, "main", operation.message)
    elif operation.name == "drop":
        del state.lines[operation.branch]
    elif operation.name == "reset-to":
        state.lines[operation.branch] = _fork(state, operation.branch)
    elif operation.name == "reset":
        line.staged = {}
    else:
        line.staged = {**line.staged, **operation.writes}
    return "ok"


def _create(state: State, name: str) -> str:
    if name in state.lines:
        return "AlreadyExistsError"
    state.lines[name] = _fork(state, name)
    return "ok"


def _fork(state: State, name: str) -> Line:
    main = state.lines["main"]
    return Line(main.head, main.committed, base=_own(main.committed, name))


def _there(writes: dict[str, str | None]) -> Tree:
    return {path: content for path, content in writes.items() if content is not None}


def _commit(state: State, operation: Operation) -> str:
    line = state.lines[operation.branch]
    same = line.shown == line.committed
    line.committed, line.staged = line.shown, {}
    if same:
        return "NoChangesError"
    _moved(state, operation.branch, operation.message)
    return "ok"


def _moved(state: State, name: str, head: str) -> None:
    state.lines[name].head = head
    if name == "main":
        for other in state.lines.values():
            other.behind = True
    else:
        state.lines[name].ahead = True


def _merge(state: State, operation: Operation, already: bool | None) -> str:
    source, into = state.lines[operation.branch], state.lines[operation.into]
    branch = operation.branch if operation.into == "main" else operation.into
    line = state.lines[branch]
    news = line.ahead if operation.into == "main" else line.behind
    if news is None and already is not None:
        news = not already
    if news is False:
        if operation.into == "main":
            line.ahead = False
        else:
            line.behind = False
        return "already"
    theirs, ours = _own(source.committed, branch), _own(into.committed, branch)
    merged = _three_way(line.base, theirs, ours, operation.strategy)
    if merged is None:
        return "MergeConflictError"
    rest = state.lines["main"].committed
    into.committed = {p: c for p, c in rest.items() if not p.startswith(own(branch))} | merged
    line.base = theirs
    if news is None:
        _perhaps_moved(state, operation.into)
    else:
        _moved(state, operation.into, f"merge {operation.number}")
    if operation.into == "main":
        line.ahead = False
    else:
        line.behind = False
    return "ok"


def _perhaps_moved(state: State, name: str) -> None:
    if name == "main":
        for other in state.lines.values():
            other.behind = other.behind or None
    else:
        state.lines[name].ahead = state.lines[name].ahead or None


def _own(tree: Tree, branch: str) -> Tree:
    return {path: content for path, content in tree.items() if path.startswith(own(branch))}


def _three_way(base: Tree, theirs: Tree, ours: Tree, strategy: str | None) -> Tree | None:
    result = {}
    for path in {*base, *theirs, *ours}:
        was, left, right = base.get(path), theirs.get(path), ours.get(path)
        if left in (was, right):
            kept = right
        elif right == was or strategy == "source-wins":
            kept = left
        elif strategy == "dest-wins":
            kept = right
        else:
            return None
        if kept is not None:
            result[path] = kept
    return result


def look(state: State, operation: Operation) -> object:
    """Return the answer to a read, in the form of `execute`."""
    line = state.lines[operation.branch]
    if operation.name == "get":
        (path,) = operation.writes
        return line.shown.get(path, "ObjectNotFoundError")
    if operation.name == "uncommitted":
        return _changes(line.committed, line.shown)
    tree = line.committed if operation.name == "list-head" else line.shown
    return {p: digest(c) for p, c in tree.items() if p.startswith(operation.prefix)}


def _changes(before: Tree, now: Tree) -> dict[str, str]:
    kinds = {}
    for path in {*before, *now}:
        if path not in before:
            kinds[path] = ChangeKind.ADDED.value
        elif path not in now:
            kinds[path] = ChangeKind.REMOVED.value
        elif before[path] != now[path]:
            kinds[path] = ChangeKind.CHANGED.value
    return kinds


def facts(state: State, owner: int | None = None) -> Facts:
    """Return the visible content; with `owner`, only the part that the owner alone changes."""
    found: Facts = {}
    wanted = "" if owner is None else f"m{owner}/"
    for name, line in state.lines.items():
        if owner is None or name.startswith(f"w{owner}-"):
            found[name, "exists"] = ""
            found |= _flat((name, "shown"), line.shown, wanted)
            found |= _flat((name, "committed"), line.committed, wanted)
        elif name == "main":
            found |= _flat((name, "committed"), line.committed, wanted)
    if owner is None:
        for tag, (_, tree) in state.tags.items():
            found["tag", tag] = ""
            found |= _flat(("tag", tag), tree, "")
    return found


def _flat(start: tuple[str, ...], tree: Tree, wanted: str) -> Facts:
    return {(*start, path): text for path, text in tree.items() if path.startswith(wanted)}
