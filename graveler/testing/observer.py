"""The states of a branch that readers see after every call of a pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from graveler.lake import Repository
from graveler.reads.view import View
from graveler.refs.branches import branch_key
from graveler.testing.process import Call

Same = Callable[[View], Any]
"""Returns the relevant content of a tree: trees with equal results count as equal."""


def contents(view: View) -> Mapping[str, str]:
    """Return the checksum of every file by its path."""
    return {
        entry.path: entry.checksum or f"sha256:{sha256(view.get(entry.path)).hexdigest()}"
        for entry in view.entries()
    }


@dataclass(frozen=True, slots=True)
class Move:
    """A move of the branch to another commit."""

    call: Call
    commit: str
    content: Any


class Observer:
    """Observes a branch without calls that the watched process counts."""

    def __init__(self, repository: Repository, branch: str, same: Same) -> None:
        self._repository = repository
        self._name = branch
        self._key = branch_key(branch).decode()
        self._same = same
        self._known: dict[str, Any] = {}
        self._partition = f"staging:{repository.stores.uid}:"
        self.begin()

    def begin(self) -> None:
        """Start over."""
        self.moves: list[Move] = []
        self.staged: list[Call] = []
        self._head = self._repository.branch(self._name).head.id
        self.before = self._last = self._content(self._head)

    @property
    def now(self) -> Any:
        """The present relevant content of the branch."""
        return self._content(self._repository.branch(self._name).head.id)

    def seen(self, call: Call) -> None:
        """Record the effect of a call on the branch."""
        if not call.writes or call.store != "kv":
            return
        if call.partition.startswith(self._partition):
            record = self._repository.stores.refs.branches.get(self._name)
            token = call.partition.removeprefix(self._partition)
            if token in (record.staging_token, *record.sealed_tokens) and call.name != "drop":
                self.staged.append(call)
        elif call.key == self._key:
            self._check_head(call)

    def _check_head(self, call: Call) -> None:
        head = self._repository.stores.refs.branches.get(self._name).commit_id
        if head == self._head:
            return
        self._head = head
        content = self._content(head)
        if content != self._last:
            self._last = content
            self.moves.append(Move(call, head, content))

    def _content(self, commit: str) -> Any:
        if commit not in self._known:
            self._known[commit] = self._same(self._repository.ref(commit))
        return self._known[commit]
