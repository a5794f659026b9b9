"""All errors of graveler, in a hierarchy by what the caller does next.

A message states what happened, with the values, and the way out. ``code`` is stable and
append-only. The command line and the integrations decide by it. Every error can be pickled,
because errors are sent through Spark, XCom and process pools.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from graveler.display import Rows, printable, refusal

if TYPE_CHECKING:
    from graveler.model import Conflict


class ErrorCode(StrEnum):
    """Stable names of the errors, for logs, exit codes and other languages."""

    ALREADY_EXISTS = "already-exists"
    BACKEND_UNAVAILABLE = "backend-unavailable"
    CHECKPOINT = "checkpoint"
    CONFLICT = "conflict"
    CORRUPTION = "corruption"
    EXPIRED = "expired"
    FENCED = "fenced"
    GATE_FAILED = "gate-failed"
    INTERNAL = "internal"
    INVALID_INPUT = "invalid-input"
    KV_OUTDATED = "kv-outdated"
    LAKE_LOCKED = "lake-locked"
    MERGE_CONFLICT = "merge-conflict"
    MISSING_DEPENDENCY = "missing-dependency"
    NEWER_FORMAT = "newer-format"
    NO_CHANGES = "no-changes"
    NOT_FOUND = "not-found"
    OBJECT_NOT_FOUND = "object-not-found"
    OLDER_FORMAT = "older-format"
    OUTCOME_UNKNOWN = "outcome-unknown"
    PERMISSION_DENIED = "permission-denied"
    PRECONDITION_FAILED = "precondition-failed"
    PROTECTED_BRANCH = "protected-branch"
    READ_ONLY = "read-only"
    REF_NOT_FOUND = "ref-not-found"
    REPOSITORY_NOT_FOUND = "repository-not-found"
    RETRYABLE = "retryable"
    RUN_NOT_FOUND = "run-not-found"
    RUN_STATE = "run-state"
    SCHEMA_CHANGED = "schema-changed"
    SOURCE_CHANGED = "source-changed"
    STAGED_BY_OTHERS = "staged-by-others"
    STATE = "state"
    STORAGE_FULL = "storage-full"
    STORAGE_MISMATCH = "storage-mismatch"
    THROTTLED = "throttled"
    UNFINISHED_FILE = "unfinished-file"
    UNSORTED_KEYS = "unsorted-keys"


class GravelerError(Exception):
    """The base of all errors that graveler raises deliberately.

    The text is one line and shows control characters, because it may quote names and values of
    strangers.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL

    def __str__(self) -> str:
        return printable(" ".join(super().__str__().splitlines()))

    def saying(self, message: str) -> Self:
        """Return an error of the same kind with another message."""
        return type(self)(message)


class NotFoundError(GravelerError, LookupError):
    """Fix the name: nothing with this name exists."""

    code = ErrorCode.NOT_FOUND


class RepositoryNotFoundError(NotFoundError):
    """The lake has no repository with this name."""

    code = ErrorCode.REPOSITORY_NOT_FOUND


class RefNotFoundError(NotFoundError):
    """The reference names no branch, tag or commit."""

    code = ErrorCode.REF_NOT_FOUND


class ObjectNotFoundError(NotFoundError):
    """The path has no entry, or the address has no bytes."""

    code = ErrorCode.OBJECT_NOT_FOUND


class RunNotFoundError(NotFoundError):
    """The repository has no run with this key."""

    code = ErrorCode.RUN_NOT_FOUND


class ExpiredError(NotFoundError):
    """Choose a commit that is kept: this one's tree is deleted, or will be deleted soon."""

    code = ErrorCode.EXPIRED


class AlreadyExistsError(GravelerError):
    """Choose another name: this one is taken."""

    code = ErrorCode.ALREADY_EXISTS


class InvalidInputError(GravelerError, ValueError):
    """Fix the argument."""

    code = ErrorCode.INVALID_INPUT


class UnsortedKeysError(InvalidInputError):
    """Keys of a range must be unique and ascend bytewise."""

    code = ErrorCode.UNSORTED_KEYS


class SchemaChangedError(InvalidInputError):
    """Cast the columns, or allow the change: the table has other columns or types."""

    code = ErrorCode.SCHEMA_CHANGED


class MissingDependencyError(GravelerError, ImportError):
    """Install the extra, or the program, that the message names."""

    code = ErrorCode.MISSING_DEPENDENCY


class PermissionDeniedError(GravelerError, PermissionError):
    """Get the permission, or other credentials: the backend refused these."""

    code = ErrorCode.PERMISSION_DENIED


class ReadOnlyError(PermissionDeniedError):
    """The lake can only be read from here: write where its folder and its disk allow it."""

    code = ErrorCode.READ_ONLY


class ProtectedBranchError(GravelerError):
    """The branch is protected against the action: work on another one and merge it."""

    code = ErrorCode.PROTECTED_BRANCH


class NewerFormatError(GravelerError):
    """Upgrade graveler: a newer one wrote the record. It was left as it is."""

    code = ErrorCode.NEWER_FORMAT


class OlderFormatError(GravelerError):
    """Make a new repository: an older graveler wrote this one, and no version reads both."""

    code = ErrorCode.OLDER_FORMAT


class StateError(GravelerError):
    """The call is not possible in the current state."""

    code = ErrorCode.STATE


class NoChangesError(StateError):
    """There is nothing to commit."""

    code = ErrorCode.NO_CHANGES


class StagedByOthersError(StateError):
    """The reset drops what others staged, and this must be said: ``others=True``."""

    code = ErrorCode.STAGED_BY_OTHERS


class UnfinishedFileError(StateError):
    """Write the file again, discard it or accept it: it was not closed, or closed during an error."""

    code = ErrorCode.UNFINISHED_FILE


class RunStateError(StateError):
    """The run is in a state that does not allow the call."""

    code = ErrorCode.RUN_STATE


class FencedError(StateError):
    """A newer attempt owns the branch: nothing of this write was acknowledged. Stop."""

    code = ErrorCode.FENCED


class CheckpointError(StateError):
    """A streaming query's checkpoint does not match the branch: the message has the ways out."""

    code = ErrorCode.CHECKPOINT


class KVOutdatedError(StateError):
    """The key-value store is older than the object store, or was replaced while it was open."""

    code = ErrorCode.KV_OUTDATED


class StorageMismatchError(StateError):
    """The storage is not the one that the key-value store belongs to: correct the settings."""

    code = ErrorCode.STORAGE_MISMATCH


class LakeLockedError(StateError):
    """Another process holds a lake that only one process may open."""

    code = ErrorCode.LAKE_LOCKED


class ConflictError(GravelerError):
    """Two changes conflict: the caller chooses."""

    code = ErrorCode.CONFLICT


class MergeConflictError(ConflictError):
    """Both sides of a merge changed paths in different ways. Nothing was merged.

    Attributes:
        conflicts: The first 1,000, in path order: the entries of base and sides, and the commits
            and runs that changed each side.
        count: The number of all conflicts.
    """

    code = ErrorCode.MERGE_CONFLICT

    def __init__(
        self, message: str, conflicts: "tuple[Conflict, ...]" = (), count: int | None = None
    ) -> None:
        super().__init__(message)
        self.conflicts = Rows(conflicts)
        self.count = len(conflicts) if count is None else count

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (str(self), self.conflicts, self.count)

    def _render_traceback_(self) -> list[str]:
        return refusal(self, str(self), self.conflicts)


class GateFailedError(GravelerError):
    """A gate refused the candidate. The target did not move.

    Attributes:
        verdicts: The verdict of each gate, in the order they ran.
        into: The branch that did not move; "" if unknown.
    """

    code = ErrorCode.GATE_FAILED

    def __init__(self, message: str, verdicts: tuple[Any, ...] = (), into: str = "") -> None:
        super().__init__(message)
        self.verdicts = Rows(verdicts)
        self.into = into

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (str(self), self.verdicts, self.into)

    def _render_traceback_(self) -> list[str]:
        what, _, reasons = str(self).partition(" was refused: ")
        return refusal(
            self,
            f"{what} was refused" if reasons else what,
            [verdict for verdict in self.verdicts if not verdict.passed],
            f"{repr(self.into) if self.into else 'The target'} did not move. Correct what the gates "
            "name, and try again.",
        )


class RetryableError(GravelerError):
    """Nothing was changed: read again and repeat."""

    code = ErrorCode.RETRYABLE


class PreconditionFailedError(RetryableError):
    """Another writer has changed the record or object since it was read."""

    code = ErrorCode.PRECONDITION_FAILED


class ThrottledError(RetryableError):
    """The backend limits the rate of requests, or too many races were lost."""

    code = ErrorCode.THROTTLED


class BackendUnavailableError(RetryableError):
    """The backend does not answer, or answers with an internal error."""

    code = ErrorCode.BACKEND_UNAVAILABLE


class OutcomeUnknownError(GravelerError):
    """The write may have landed or not: read back first."""

    code = ErrorCode.OUTCOME_UNKNOWN


class StorageFullError(GravelerError, OSError):
    """No space is left: free some and repeat. Nothing was partially written."""

    code = ErrorCode.STORAGE_FULL


class CorruptionError(GravelerError):
    """Stored bytes are damaged: do not retry, keep the bytes, and run ``graveler fsck``."""

    code = ErrorCode.CORRUPTION


class SourceChangedError(CorruptionError):
    """A linked file is not the one that was linked: put it back, or link it again."""

    code = ErrorCode.SOURCE_CHANGED


class InternalError(GravelerError):
    """A defect of graveler itself."""

    code = ErrorCode.INTERNAL


TRANSIENT = (LakeLockedError, OutcomeUnknownError, RetryableError, StorageFullError)
"""Errors after which a repetition of the same work may succeed."""
