"""The predicate of the drivers here: the value itself."""

from graveler.errors import InvalidInputError, PreconditionFailedError
from graveler.kv.store import ABSENT, PRESENT, Predicate


def check_predicate(predicate: Predicate) -> None:
    """Refuse a predicate that can never hold.

    Raises:
        InvalidInputError: It is neither ``ABSENT`` nor ``PRESENT`` nor a value.
    """
    if predicate is not ABSENT and predicate is not PRESENT and not isinstance(predicate, bytes):
        raise InvalidInputError(
            f"predicate of type {type(predicate).__name__}: give ABSENT, PRESENT or the "
            "predicate that get() returned"
        )


def check_read_predicate(predicate: Predicate) -> None:
    """Refuse a predicate of no value that was read.

    Raises:
        InvalidInputError: It is no value.
    """
    if not isinstance(predicate, bytes):
        raise InvalidInputError(
            f"predicate of type {type(predicate).__name__}: give the predicate that get() returned"
        )


def holds(predicate: Predicate, value: bytes | None) -> bool:
    """Return whether a key with `value` (None: absent) satisfies `predicate`."""
    if predicate is ABSENT:
        return value is None
    if predicate is PRESENT:
        return value is not None
    return bool(value == predicate)


def changed(partition: str, key: bytes, predicate: Predicate) -> PreconditionFailedError:
    """Return the error of a condition that did not hold."""
    if predicate is ABSENT:
        found = "is there already"
    elif predicate is PRESENT:
        found = "is not there"
    else:
        found = "has another value than the one read, or is gone"
    return PreconditionFailedError(f"key {key!r} in {partition!r} {found}: read it again")
