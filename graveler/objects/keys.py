"""What may be an object's key, alike in every driver."""

from typing import Final

from graveler.errors import InvalidInputError

MAX_KEY_BYTES: Final = 1024
"""Longest key, in UTF-8: what S3 takes, the prefix of the root included."""


def _fault(key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "it is not text that UTF-8 can hold"
    if not 1 <= size <= MAX_KEY_BYTES:
        return f"it has {size} bytes: give 1 to {MAX_KEY_BYTES}"
    if "\0" in key or "\\" in key:
        return "it holds a NUL or a backslash: leave them out"
    if any(part in {"", ".", ".."} for part in key.split("/")):
        return "an empty part, '.' or '..' names no object: leave it out, and a leading '/' too"
    return ""


def check_key(key: str) -> None:
    """Refuse a key that some driver could not store, or that could lead out of its root.

    Raises:
        InvalidInputError: With the key and what is wrong with it.
    """
    if fault := _fault(key):
        raise InvalidInputError(f"{key!r} cannot be an object's key: {fault}")


def check_range(start: int, length: int) -> None:
    """Refuse a range that counts from the end or backwards.

    Raises:
        InvalidInputError: `start` or `length` is negative.
    """
    if start < 0 or length < 0:
        raise InvalidInputError(f"{length} bytes from {start}: give numbers from 0")


def check_prefix(prefix: str) -> None:
    """Refuse a prefix that is no text; one that no key starts with just finds nothing.

    Raises:
        InvalidInputError: UTF-8 cannot hold it.
    """
    try:
        prefix.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{prefix!r} cannot be a prefix: UTF-8 cannot hold it") from error


def folder_of_prefix(prefix: str) -> str | None:
    """Return the folder that holds every key of `prefix` ("" is the root).

    None where no key can start so: ``a//b``, ``../``.
    """
    folder = prefix.rpartition("/")[0]
    if not folder:
        return None if prefix.startswith("/") else ""
    return None if _fault(folder) else folder
