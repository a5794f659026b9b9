"""The table of refusals: a situation, a call, and the error that it gets from every face."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from graveler.errors import GravelerError
from tests.refusals import situations as of
from tests.refusals.scene import Scene


@dataclass(frozen=True)
class Row:
    """A refusal.

    Attributes:
        situation: Prepares the scene.
        call: The call and its arguments; ``{name}`` is a value of the scene.
        code: The code of the library's error.
        says: What its message has; ``{name}`` is a value of the scene.
        unlike: What a face shows instead, by its name; None if the face does not refuse the call.
        changes: The parts of the state that change beside: by the refusal, or by others.
    """

    situation: Callable[[Scene], None]
    call: str
    code: str
    says: tuple[str, ...] = ()
    unlike: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    changes: frozenset[str] = frozenset()

    @property
    def error(self) -> type[GravelerError]:
        """The class of the library's error."""
        return next(each for each in _classes(GravelerError) if each.code == self.code)

    @property
    def name(self) -> str:
        """Its name in test ids."""
        return f"{self.situation.__name__}-{self.call}".replace(" ", "-")


def _classes(error: type[GravelerError]) -> Iterator[type[GravelerError]]:
    yield error
    for each in error.__subclasses__():
        yield from _classes(each)


def _row(
    situation: Callable[[Scene], None],
    call: str,
    code: str,
    *says: str,
    changes: frozenset[str] = frozenset(),
    **unlike: Any,
) -> Row:
    return Row(situation, call, code, says, unlike, changes)


_NOTED = frozenset({"runs"})
_MOVED = frozenset({"heads", "moves"})
_EROFS = (type(None), OSError)
_ACCESS = (403, "AccessControlException")
_NOT_FOUND = (404, "FileNotFoundException")
_GONE = (1, "ref-not-found")

ROWS = (
    # protected branch
    _row(of.protected, "put main x", "protected-branch", "'main'", "write", "unprotect"),
    _row(of.protected, "delete main a", "protected-branch", "'main'", "write"),
    _row(of.protected, "make_folder main x", "protected-branch", "'main'", "write"),
    _row(of.protected, "commit main", "protected-branch", "'main'"),
    _row(of.protected, "commit_changes main a", "protected-branch", "'main'", "write"),
    _row(of.protected, "merge dev main", "protected-branch", "'main'", "merge"),
    _row(of.protected, "preview dev main", "protected-branch", "'main'", "merge"),
    _row(of.protected, "publish", "protected-branch", "'main'", "merge", changes=_NOTED),
    _row(of.protected, "revert main main", "protected-branch", "'main'", "revert"),
    _row(of.protected, "cherry_pick dev main", "protected-branch", "'main'", "revert"),
    _row(of.protected, "reset main main~1", "protected-branch", "'main'", "reset"),
    _row(of.protected, "undo main", "protected-branch", "'main'", "reset"),
    # a gate that refuses
    _row(of.gated, "commit main", "gate-failed", "'main'", "rows: 0 rows, 3 files"),
    _row(of.gated, "commit_changes main a", "gate-failed", "rows: 0 rows, 1 files"),
    _row(of.gated, "merge dev main", "gate-failed", "'main'", "rows: 0 rows, 3 files"),
    _row(of.gated, "revert main main", "gate-failed", "'main'", "rows"),
    _row(of.gated, "reset main main~1", "gate-failed", "'main'", "rows"),
    _row(of.gated, "undo main", "gate-failed", "'main'", "rows"),
    _row(of.gated, "publish", "gate-failed", "'hour'", "0 rows, 3 files", changes=_NOTED),
    # a merge conflict
    _row(of.conflicting, "merge dev main", "merge-conflict", "dev", "main", "1 path", "'a'"),
    _row(of.conflicting, "cherry_pick dev main", "merge-conflict", "on main", "'a'"),
    _row(of.conflicting, "revert main~2 main", "merge-conflict", "on main", "'a'"),
    _row(of.conflicting, "publish", "merge-conflict", "run hour", "'a'", changes=_NOTED),
    # what is in the way
    _row(of.staging, "publish", "state", "'hour'", "'s'"),
    _row(of.unfinished, "commit dev", "unfinished-file", "half"),
    _row(of.plain, "commit dev", "no-changes", "'dev'"),
    _row(of.plain, "commit_changes dev nothing", "no-changes", "'dev'", fs=None),
    _row(of.plain, "revert v1~1 main", "invalid-input", "no parent"),
    # what is missing
    _row(of.missing_repository, "put main x", "repository-not-found", "'nowhere'", "flights"),
    _row(of.missing_repository, "read main a", "repository-not-found", "'nowhere'", "flights"),
    _row(of.missing_repository, "list main x", "repository-not-found", "'nowhere'", "flights"),
    _row(of.missing_repository, "commit main", "repository-not-found", "'nowhere'", "flights"),
    _row(of.missing_repository, "merge dev main", "repository-not-found", "'nowhere'"),
    _row(of.missing_repository, "open_run hour main", "repository-not-found", "'nowhere'"),
    _row(of.plain, "delete_repository nowhere", "repository-not-found", "'nowhere'"),
    _row(of.plain, "put gone x", "ref-not-found", "'gone'"),
    _row(of.plain, "delete gone x", "ref-not-found", "'gone'"),
    _row(of.plain, "make_folder gone x", "ref-not-found", "'gone'"),
    _row(of.plain, "commit gone", "ref-not-found", "'gone'"),
    _row(of.plain, "merge gone main", "ref-not-found", "'gone'"),
    _row(of.plain, "merge main gone", "ref-not-found", "'gone'"),
    _row(of.plain, "reset gone main", "ref-not-found", "'gone'"),
    _row(of.plain, "undo gone", "ref-not-found", "'gone'"),
    _row(of.plain, "delete_branch gone", "ref-not-found", "'gone'"),
    _row(of.plain, "create_branch new gone", "ref-not-found", "'gone'"),
    _row(of.plain, "open_run hour gone", "ref-not-found", "'gone'"),
    _row(of.plain, "delete_tag gone", "ref-not-found", "'gone'"),
    _row(of.plain, "tag v2 gone", "ref-not-found", "'gone'"),
    _row(of.plain, "read gone a", "ref-not-found", "'gone'"),
    _row(of.plain, "log main~9", "ref-not-found", "main~9"),
    _row(of.plain, "diff main feedfeedfeed", "ref-not-found", "feedfeedfeed"),
    _row(of.plain, "read main gone", "object-not-found", "gone"),
    _row(of.plain, "show_run hour", "run-not-found", "'hour'"),
    _row(of.plain, "rollback hour", "run-not-found", "'hour'"),
    # what can only be read
    _row(of.plain, "put v1 x", "ref-not-found", "v1", fs=_EROFS, server=_ACCESS),
    _row(of.plain, "put main~1 x", "invalid-input", "main~1", fs=_EROFS, server=_ACCESS),
    _row(of.judged, "put dev x", "read-only", "dev"),
    _row(of.judged, "delete dev d", "read-only"),
    _row(of.judged, "commit dev", "read-only", "dev"),
    _row(of.judged, "merge dev main", "read-only", "'main'", "'rows'"),
    _row(of.judged, "publish", "read-only", "'rows'"),
    _row(of.judged, "open_run next main", "read-only", "'rows'"),
    _row(of.judged, "create_branch new main", "read-only", "'new'", "'rows'"),
    _row(of.judged, "delete_branch dev", "read-only", "'dev'", "'rows'"),
    _row(of.judged, "tag v2 main", "read-only", "'v2'", "'rows'"),
    _row(of.judged, "protect main write", "read-only", "'rows'"),
    # names that are taken
    _row(of.plain, "create_branch dev main", "already-exists", "'dev'"),
    _row(of.plain, "tag v1 dev", "already-exists", "'v1'"),
    _row(of.plain, "create_repository flights", "already-exists", "'flights'"),
    # names and paths that are none
    _row(of.plain, "create_repository Flights!", "invalid-input", "'Flights!'"),
    _row(of.plain, "create_branch a/b main", "invalid-input", "'a/b'"),
    _row(of.plain, "create_branch run-1 main", "invalid-input", "'run-1'"),
    _row(of.plain, "tag v:1 main", "invalid-input", "'v:1'"),
    _row(of.plain, "put dev x/../y", "invalid-input", "x/../y"),
    _row(of.plain, f"put dev {'x' * 1025}", "invalid-input", "1025 bytes"),
    _row(of.plain, "read @ a", "invalid-input", "@", server=_NOT_FOUND),
    _row(of.plain, "merge main main", "invalid-input", "'main'"),
    _row(of.plain, "delete_branch main", "invalid-input", "'main'", "default"),
    _row(of.plain, "protect main dance", "invalid-input", "dance", "delete"),
    _row(of.plain, "require main nowhere:no_rows", "invalid-input", "nowhere"),
    # the branch of a run, and attempts that are over
    _row(of.running, "put {run} x", "fenced", "{run}", library=None, fs=None),
    _row(of.running, "make_folder {run} x", "fenced", "{run}"),
    _row(of.running, "commit {run}", "fenced", "{run}", library=None, fs=None),
    _row(of.running, "merge {run} main", "run-state", "'hour'"),
    _row(of.running, "cherry_pick {run} main", "run-state", "'hour'"),
    _row(of.running, "reset main {run}", "run-state", "'hour'"),
    _row(of.running, "merge dev {run}", "fenced", "{run}"),
    _row(of.running, "reset {run} main", "fenced", "{run}"),
    _row(of.running, "delete_branch {run}", "fenced", "{run}", "abandon"),
    _row(of.running, "open_run next {run}", "invalid-input", "'hour'", "{run}"),
    _row(of.running, "open_run hour dev", "invalid-input", "'hour'", "'main'", "'dev'"),
    _row(of.running, "rollback hour", "run-state", "'hour'"),
    _row(of.superseded, "put {run} x", "fenced", "'{run}'", "attempt 2"),
    _row(of.superseded, "commit {run}", "fenced", "'{run}'", "attempt 2"),
    _row(of.superseded, "step s", "fenced", "'{run}'", "attempt 2"),
    _row(of.superseded, "publish", "fenced", "'hour'", "attempt"),
    _row(of.parked, "put {run} x", "fenced", "'{run}'"),
    _row(of.parked, "publish", "run-state", "'hour'", "PARKED"),
    _row(of.abandoned, "put {run} x", "fenced", "'{run}'", cli=_GONE, server=_NOT_FOUND),
    _row(of.abandoned, "publish", "fenced", "'hour'", "REAPED"),
    _row(of.published, "put {run} x", "fenced", "'{run}'", cli=_GONE, server=_NOT_FOUND),
    _row(of.published, "abandon hour", "run-state", "'hour'", "PUBLISHED"),
    _row(of.rolled_back_by_reset, "rollback hour", "run-state", "'hour'", "'main'"),
    _row(of.owned, "open_for hour dag-1", "fenced", "'hour'", "dag-1"),
    _row(of.two_repositories, "publish", "invalid-input", "'trains'", "'flights'"),
    # what is expired, damaged, or of another version
    _row(of.expired, "read {lost} x", "expired", "{short}", "garbage collection"),
    _row(of.expired, "list {lost} x", "expired", "{short}"),
    _row(of.expired, "create_branch new {lost}", "expired", "{short}"),
    _row(of.expired, "merge {lost} main", "expired", "{short}"),
    _row(of.condemned, "tag v2 {lost}", "expired", "{short}", "graveler gc undelete"),
    _row(of.condemned, "reset dev {lost}", "expired", "{short}", "graveler gc undelete"),
    _row(of.damaged_file, "read main a", "corruption", "data/", cli=None, server=None),
    _row(of.damaged_tree, "list main a", "corruption", "graveler fsck"),
    _row(of.damaged_tree, "merge dev main", "corruption"),
    _row(of.newer_format, "put main x", "newer-format", "99", "upgrade graveler"),
    _row(of.newer_format, "commit main", "newer-format", "99"),
    _row(of.newer_format, "merge dev main", "newer-format", "99"),
    _row(of.newer_format, "read main a", "newer-format", "99"),
    # stores that do not answer, and lost races
    _row(of.unreachable, "put dev x", "backend-unavailable", "no answer"),
    _row(of.unreachable, "commit dev", "backend-unavailable", "no answer"),
    _row(of.unreachable, "read main a", "backend-unavailable", "no answer"),
    _row(of.unreachable, "list main a", "backend-unavailable", "no answer"),
    _row(of.unreachable, "merge dev main", "backend-unavailable", "no answer"),
    _row(of.unreachable, "publish", "backend-unavailable", "no answer"),
    _row(of.moved, "undo main", "precondition-failed", "'main'", "reflog", changes=_MOVED),
    _row(of.moved, "merge dev main", "throttled", "'main'", "busy", changes=_MOVED, cli=None),
)
