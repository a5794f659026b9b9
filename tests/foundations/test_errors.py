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
    assert issubclass(kind, GravelerError)
    assert kind.__doc__


def test_codes_are_one_to_one_with_the_classes():
    codes = {kind: kind.code for kind in CLASSES if kind is not GravelerError}
    assert len(set(codes.values())) == len(codes)
    assert set(codes.values()) == set(ErrorCode)
    assert GravelerError.code is ErrorCode.INTERNAL


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        (errors.FencedError, errors.StateError),
        (errors.PreconditionFailedError, errors.RetryableError),
        (errors.BackendUnavailableError, errors.RetryableError),
        (errors.ThrottledError, errors.RetryableError),
        (MergeConflictError, errors.ConflictError),
        (errors.RefNotFoundError, errors.NotFoundError),
        (errors.NotFoundError, LookupError),
        (errors.InvalidInputError, ValueError),
        (errors.StorageFullError, OSError),
        (errors.PermissionDeniedError, PermissionError),
        (errors.MissingDependencyError, ImportError),
    ],
)
def test_what_the_caller_does_next_is_the_parent(kind, parent):
    assert issubclass(kind, parent)
    assert issubclass(kind, GravelerError)


@pytest.mark.parametrize("kind", [errors.OutcomeUnknownError, errors.CorruptionError])
def test_an_unknown_outcome_and_damage_are_not_to_be_retried(kind):
    assert not issubclass(kind, errors.RetryableError)
