"""A commit of some of the staged paths: the others stay staged.

It is the one exception to the rule that a commit holds a listing of the whole branch. The live token
is sealed, the newest sealed write of each chosen path is laid over the head, and the branch moves in
one compare-and-set. Leading tokens of which every write is chosen leave the record in the same step, as
in any commit. From the others the committed writes are removed afterwards, the oldest first.

No acknowledged write is lost: what is not chosen is not touched, and a chosen write is removed only
after its commit has landed. A process that dies before that, or a store that gives no reply, leaves
writes that equal the head; the same commit again, or any other commit, clears them.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from graveler.committed import keeping
from graveler.committed.apply import apply
from graveler.errors import BackendUnavailableError, NoChangesError, OutcomeUnknownError
from graveler.globs import compiled, literal_start
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.repository.borrowed import Row, borrowed_row, confirm
from graveler.repository.bundles import seal
from graveler.values import staged_changes


class Choice:
    """The paths that a commit takes.

    Args:
        patterns: Patterns of paths; one that ends with a slash stands for all that is below.

    Raises:
        InvalidInputError: A pattern that no path can match.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._rules = [(literal_start(each).encode(), compiled(each)) for each in patterns]

    def covers(self, key: bytes) -> bool:
        """Return whether the commit takes the path of a key."""
        return any(
            key.startswith(start) and rule.fullmatch(key.decode("utf-8", "backslashreplace"))
            for start, rule in self._rules
        )

    def of(self, staged: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the staged writes that the commit takes."""
        return (item for item in staged if self.covers(item[0]))


def commit_paths(
    stores: Stores,
    name: str,
    spec: CommitSpec,
    choice: Choice,
    *,
    fence: str = "",
    keep: str = "",
) -> Commit:
    """Commit what is staged at some paths of the branch; what is staged elsewhere stays staged.

    Args:
        stores: The repository.
        name: The branch.
        spec: The message, metadata and committer.
        choice: The paths.
        fence: The fence of the run that owns the branch; "" for a user's branch.
        keep: Metarange id of a tree whose records replace staged ones of equal content; "" for none.

    Raises:
        NoChangesError: Nothing is staged there that differs from the head.
        ProtectedBranchError: The branch accepts no commits.
        FencedError: A newer attempt of the run owns the branch.
        GateFailedError: A gate that the branch requires refuses; all stays staged.
        ThrottledError: 62 tokens are sealed on the branch: commit everything.
    """
    work = _Work(stores, name, spec, choice, keep)
    if not fence:
        stores.refs.protection.check(name, "commit")
    seal(stores, name, fence)
    landed = land(stores, name, "commit", work.build, fence=fence, guard="" if fence else "commit")
    work.clear()
    if landed.commit is None:
        shown = ", ".join(choice.patterns)
        raise NoChangesError(
            f"branch {name!r}: nothing is staged at {shown} that differs from the head"
        )
    return landed.commit


class _Work:
    """One commit of some paths, from try to try."""

    def __init__(
        self, stores: Stores, name: str, spec: CommitSpec, choice: Choice, keep: str
    ) -> None:
        self._stores = stores
        self._name = name
        self._spec = spec
        self._choice = choice
        self._keep = keep
        self._whole: tuple[str, ...] = ()
        self._partly: tuple[str, ...] = ()

    def build(self, tip: Tip) -> BranchRecord | None:
        """Return the record with the chosen writes committed; None if they equal the head."""
        stores, sealed = self._stores, tip.record.sealed_tokens
        borrowed: list[Row] = []
        changes = staged_changes(
            self._choice.of(stores.staging.scan(sealed[::-1])) if sealed else (),
            lambda key, write: borrowed.append(borrowed_row(key, write)),
        )
        if self._keep:
            changes = keeping(stores.ranges, self._keep, changes)
        applied = apply(stores.ranges, tip.head.metarange, changes, stores.splitting)
        if borrowed:
            confirm(stores, sealed, borrowed)
        whole = self._leading(sealed)
        self._whole, self._partly = (), sealed
        if not applied.changed:
            return None
        self._whole, self._partly = whole, sealed[len(whole) :]
        made = make_commit(
            stores,
            tree=applied.metarange,
            parents=(tip.head,),
            spec=self._spec,
            tokens=whole,
        )
        return replace(tip.at(made), sealed_tokens=self._partly)

    def _leading(self, sealed: tuple[str, ...]) -> tuple[str, ...]:
        """Return the first tokens of which the commit takes every write."""
        for number, token in enumerate(sealed):
            staged = self._stores.staging.scan([token])
            if not all(self._choice.covers(key) for key, _ in staged):
                return sealed[:number]
        return sealed

    def clear(self) -> None:
        """Remove the committed writes from the tokens that stay, the oldest first.

        It ends where a reply is lost: an older write must not outlive a newer one, which hides it.
        """
        staging = self._stores.staging
        staging.drop(*self._whole)
        with suppress(OutcomeUnknownError, BackendUnavailableError):
            for token in self._partly:
                for key, write in list(self._choice.of(staging.scan([token]))):
                    staging.withdraw(token, key, write)
