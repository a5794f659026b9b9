"""Checkers of commits and refs."""

from collections import Counter
from collections.abc import Iterator

from tests.simulate.evidence import Evidence
from tests.simulate.history import Operation, precedes


def commits_stay_in_history(evidence: Evidence) -> Iterator[str]:
    """An acknowledged commit is an ancestor of its branch, unless the branch was moved back."""
    for branch in evidence.heads:
        reached = evidence.ancestors(branch)
        moved = list(evidence.of_kind("drop", "hard_reset", branch=branch))
        for operation in evidence.of_kind("commit", "merge", "revert", branch=branch):
            if not operation.ok or operation.result in reached:
                continue
            if all(precedes(undo, operation) for undo in moved):
                yield f"not in the history of {branch}: {operation}"


def commits_land_once(evidence: Evidence) -> Iterator[str]:
    """An operation makes at most one commit of a history, even if a reply was lost."""
    made = {op.message for op in evidence.of_kind("commit", "merge", "revert")}
    for branch in evidence.heads:
        messages = Counter(
            evidence.commits[identifier].message for identifier in evidence.ancestors(branch)
        )
        for message, count in messages.items():
            if count > 1 and message in made:
                yield f"{count} commits {message!r} in the history of {branch}"


def nothing_immutable_was_written(evidence: Evidence) -> Iterator[str]:
    """Commits and tags are written once, and no branch names a token again after giving it up."""
    return iter(evidence.broken)


def commits_are_news(evidence: Evidence) -> Iterator[str]:
    """A commit that an operation returns is new, or may hold earlier writes of its process."""
    made = {op.message: op for op in evidence.of_kind("commit", "merge", "revert")}
    for operation in evidence.of_kind("commit"):
        if operation.result in evidence.commits:
            maker = made.get(evidence.commits[operation.result].message)
            if maker is None or (
                precedes(maker, operation) and not _wrote_since(evidence, maker, operation)
            ):
                yield f"it was there before: {operation}"


def _wrote_since(evidence: Evidence, maker: Operation, commit: Operation) -> bool:
    """Return whether the process wrote since its last commit, and not after the maker's end."""
    by = (commit.process, commit.branch)
    mine = [op for op in evidence.operations if (op.process, op.branch) == by]
    for operation in reversed(mine[: mine.index(commit)]):
        if operation.kind in {"commit", "commit_paths"}:
            return False
        if operation.kind in {"put", "delete"} and not precedes(maker, operation):
            return True
    return False
