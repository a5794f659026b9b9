"""The records of a lake as JSON, with the fields that ``--json`` promises."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from graveler.errors import ErrorCode, GateFailedError, GravelerError, MergeConflictError

# by the name of the class: importing the classes would slow the start of every verb
_FIELDS = {
    "Entry": "path size checksum content_type mtime metadata address",
    "Commit": "id message committer created parents generation metarange metadata",
    "BranchRecord": "name commit=commit_id ends",
    "Change": "path kind before after",
    "Conflict": "path base source dest bases_disagree source_change dest_change",
    "RefMove": "ref kind position at action before after actor dropped",
    "RunRecord": (
        "key state attempt branch into base head commit publishes reason owner on_failure "
        "lease_until expires rollback inputs refusals verdicts metadata created opened updated"
    ),
    "Input": "commit prefix",
    "Refusal": "at reason gates",
    "Publish": "commit head into attempt at changed rollback lost verdicts",
    "Reaped": "key branch from_state to_state reason",
    "MergePreview": (
        "source=source.id dest=dest.id already added changed removed conflict_count conflicts"
    ),
    "PublishResult": "commit already verdicts",
    "Hour": (
        "hour state commit=commit.id published=published.id late quarantined refused set_aside"
    ),
    "Quarantine": "name hours commits created refused=refusal",
    "Release": "name commit=commit.id already",
    "Status": "branch into staged pending held quarantined",
    "Why": (
        "entry commit made key? attempt? step? try?=try_number gates verdicts inputs origin run publish"
    ),
}


def moment(when: datetime | None) -> str | None:
    """Return a time as ISO 8601, UTC."""
    return None if when is None else when.isoformat(timespec="microseconds")


def shape_of(value: Any) -> Any:
    """Return a record, or a value in one, as JSON values."""
    fields = _fields(type(value).__mro__)
    if fields:
        return {name: shape_of(read(value)) for name, read in fields}
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return [shape_of(item) for item in value]
    return asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]  # no class


def shape_of_error(error: Exception, message: str) -> dict[str, Any]:
    """Return an error with a message as JSON values: its code, and its conflicts or verdicts."""
    code = error.code if isinstance(error, GravelerError) else ErrorCode.INTERNAL
    shape: dict[str, Any] = {"code": str(code), "message": message}
    if isinstance(error, MergeConflictError):
        shape["conflicts"] = shape_of(error.conflicts)
        shape["conflict_count"] = error.count
    if isinstance(error, GateFailedError):
        shape["verdicts"] = shape_of(error.verdicts)
    return shape


@cache
def _fields(bases: tuple[type, ...]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Return the promised fields of the first class that has any; `bases` starts with the class."""
    texts = (_FIELDS[base.__name__] for base in bases if base.__name__ in _FIELDS)
    pairs = (word.partition("=") for word in next(texts, "").split())
    return tuple((name.rstrip("?"), _reader(name, path)) for name, _, path in pairs)


def _reader(name: str, path: str) -> Callable[[Any], Any]:
    """Return what reads a field: ``name``, ``name=path``, and with ``?`` None for nothing."""
    first, _, rest = (path or name.rstrip("?")).partition(".")
    read = attrgetter(first)
    if rest:
        return lambda of: getattr(read(of), rest, None)
    return (lambda of: read(of) or None) if name.endswith("?") else read
