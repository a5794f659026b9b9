"""The driver for the URI of a root. A driver's libraries are loaded when it is opened."""

import threading
from collections.abc import Mapping
from pathlib import Path

from graveler.base.clock import Clock, IdSource
from graveler.base.privacy import is_uri, shown_uri
from graveler.base.retries import NO_PROGRESS_S
from graveler.base.telemetry import is_metered
from graveler.errors import InvalidInputError
from graveler.objects.memory import MemoryStore
from graveler.objects.metered import MeteredObjects
from graveler.objects.store import ObjectStore

_KNOWN = "file:///folder (or a plain path), mem://name, s3://bucket/prefix, s3a://bucket/prefix"

_DRIVERS = {"s3a": "s3", "mem": "memory", "linked": "file"}  # only schemes that differ

_memory_stores: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()


def open_store(
    uri: str,
    options: Mapping[str, str] | None = None,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    no_progress_s: float = NO_PROGRESS_S,
) -> ObjectStore:
    """Open the object store below a root.

    No request is made: a folder is created with its first object, and a bucket must exist.

    Args:
        uri: ``file:///folder`` or a plain path, ``s3://bucket/prefix`` (``s3a://`` is Hadoop's
            name of the same store), or ``mem://name``, which the whole process shares and which is
            lost at its end. It is not decoded: ``%20`` is not a space.
        options: Only for S3, instead of the usual AWS settings: ``endpoint_url``, ``region``,
            ``access_key``, ``secret_key``, ``session_token``, ``role_arn``, ``external_id``,
            ``path_style`` ("true" or "false", by default "true" with an endpoint_url).
    """
    scheme, store = _opened(uri, options, clock, ids, no_progress_s)
    return MeteredObjects(store, _DRIVERS.get(scheme, scheme)) if is_metered() else store


def _opened(
    uri: str,
    options: Mapping[str, str] | None,
    clock: Clock | None,
    ids: IdSource | None,
    no_progress_s: float,
) -> tuple[str, ObjectStore]:
    """Return the scheme of a root, and its driver."""
    scheme, separator, rest = uri.partition("://")
    if not separator and is_uri(uri):
        raise InvalidInputError(f"{shown_uri(uri)!r} is no folder: give one of {_KNOWN}")
    if not separator:
        scheme, rest = "file", str(Path(uri).absolute())
    match scheme:
        case "s3" | "s3a":
            from graveler.objects.s3 import S3Store
            from graveler.objects.s3_client import S3Settings

            settings = S3Settings.parse(options or {})
            return scheme, S3Store(uri, settings, clock=clock, ids=ids, no_progress_s=no_progress_s)
        case "file" | "linked":
            from graveler.objects.local import LocalStore

            _refuse(uri, options)
            return scheme, LocalStore(
                _folder(uri, rest), clock=clock, ids=ids, follow_links=scheme == "file"
            )
        case "mem":
            _refuse(uri, options)
            return scheme, _memory_store(uri, rest.rstrip("/"), clock)
        case _:
            raise InvalidInputError(f"no object store for {shown_uri(uri)!r}: give one of {_KNOWN}")


def _refuse(uri: str, options: Mapping[str, str] | None) -> None:
    if options:
        raise InvalidInputError(f"{uri!r} takes no options, not {sorted(options)}: leave them out")


def _folder(uri: str, rest: str) -> Path:
    if not rest.startswith("/"):
        raise InvalidInputError(
            f"{uri!r} names a host, not a folder: give three slashes, file:///folder"
        )
    return Path(rest)


def _memory_store(uri: str, name: str, clock: Clock | None) -> MemoryStore:
    if not name:
        raise InvalidInputError(f"{uri!r} has no name: give one, mem://name")
    with _memory_lock:
        if name not in _memory_stores:
            _memory_stores[name] = MemoryStore(name, clock=clock)
        return _memory_stores[name]
