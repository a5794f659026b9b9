"""The classes of errors: their codes, and that all of them can be pickled."""

import copy
import pickle

import pytest

from graveler import errors
from graveler.errors import ErrorCode, GateFailedError, GravelerError, MergeConflictError
from graveler.gates import Verdict
from graveler.model import ChangedBy, Conflict, Entry

CLASSES = [kind for name, kind in vars(errors).items() if name.endswith("Error")]
ONE, TWO = Entry("a", "data/1", 1), Entry("a", "data/2", 2, metadata={"by": "me"})
CONFLICTS = (
    Conflict("a", None, ONE, TWO),
    Conflict("b", None, None, TWO, bases_disagree=True, dest_change=ChangedBy("c0ffee", "hour 05")),
)
VERDICTS = (Verdict("g", False, "error", "no"), Verdict("h", True, "warn"))


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_travels_with_what_it_carries(kind):
    carried = {MergeConflictError: (CONFLICTS, 2_000), GateFailedError: (VERDICTS,)}.get(kind, ())
    error = kind("what happened; what to do", *carried)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is kind
        assert str(other) == str(error) == "what happened; what to do"
        assert other.code == kind.code
        assert vars(other) == vars(error)
    if kind is MergeConflictError:
        assert pickle.loads(pickle.dumps(error)).conflicts == CONFLICTS
        assert pickle.loads(pickle.dumps(error)).count == 2_000
    if kind is GateFailedError:
        assert pickle.loads(pickle.dumps(error)).verdicts == VERDICTS


def test_a_subclass_of_a_merge_conflict_travels_as_itself():
    error = pickle.loads(pickle.dumps(SpecialError("x", CONFLICTS)))
    assert type(error) is SpecialError
    assert error.conflicts == CONFLICTS


class SpecialError(MergeConflictError):
    """An error class of another package."""


def test_codes_are_one_to_one_with_the_classes():
    codes = {kind: kind.code for kind in CLASSES if kind is not GravelerError}
    assert len(set(codes.values())) == len(codes)
    assert set(codes.values()) == set(ErrorCode)
    assert GravelerError.code is ErrorCode.INTERNAL


def test_every_error_is_one_of_ours_and_says_what_to_do():
    for kind in CLASSES:
        assert issubclass(kind, GravelerError)
        assert kind.__doc__


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        ("FencedError", "StateError"),
        ("PreconditionFailedError", "RetryableError"),
        ("BackendUnavailableError", "RetryableError"),
        ("ThrottledError", "RetryableError"),
        ("MergeConflictError", "ConflictError"),
        ("RefNotFoundError", "NotFoundError"),
    ],
)
def test_what_the_caller_does_next_is_the_parent(kind, parent):
    assert issubclass(getattr(errors, kind), getattr(errors, parent))


def test_an_unknown_outcome_and_damage_are_not_to_be_retried():
    assert not issubclass(errors.OutcomeUnknownError, errors.RetryableError)
    assert not issubclass(errors.CorruptionError, errors.RetryableError)


def test_those_of_python_catch_ours():
    assert issubclass(errors.NotFoundError, LookupError)
    assert issubclass(errors.InvalidInputError, ValueError)
    assert issubclass(errors.StorageFullError, OSError)
    assert issubclass(errors.PermissionDeniedError, PermissionError)
    assert issubclass(errors.MissingDependencyError, ImportError)
