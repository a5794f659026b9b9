"""The records of a lake as JSON, with the fields that ``--json`` promises."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graveler.ingest import Hour, Quarantine

# by the name of the class: importing the classes would slow the start of every verb
_FIELDS = {
    "Entry": "path size checksum content_type mtime metadata address",
    "Commit": "id message committer created parents generation metarange metadata",
    "Change": "path kind before after",
    "Conflict": "path base source dest bases_disagree source_change dest_change",
    "RefMove": "ref kind position at action before after actor",
    "RunRecord": (
        "key state attempt branch into base head commit publishes reason owner on_failure "
        "lease_until expires rollback inputs refusals verdicts metadata created opened updated"
    ),
    "Input": "commit prefix",
    "Refusal": "at reason gates",
    "Publish": "commit head into attempt at changed rollback lost verdicts",
    "Reaped": "key branch from_state to_state reason",
}


def moment(when: datetime | None) -> str | None:
    """Return a time as ISO 8601, UTC."""
    return None if when is None else when.isoformat(timespec="microseconds")


def shape_of(value: Any) -> Any:
    """Return a record, or a value in one, as JSON values."""
    names = _names(type(value).__mro__)
    if names:
        return {name: shape_of(getattr(value, name)) for name in names}
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return [shape_of(item) for item in value]
    return asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]  # no class


@cache
def _names(bases: tuple[type, ...]) -> tuple[str, ...]:
    """Return the promised fields of the first class that has any; `bases` starts with the class."""
    texts = (_FIELDS[base.__name__] for base in bases if base.__name__ in _FIELDS)
    return tuple(next(texts, "").split())


def hour_shape(hour: "Hour") -> dict[str, Any]:
    """Return the state of an hour of an ingestion."""
    return {
        "hour": hour.hour,
        "state": str(hour.state),
        "commit": None if hour.commit is None else hour.commit.id,
        "published": None if hour.published is None else hour.published.id,
        "late": list(hour.late),
        "quarantined": list(hour.quarantined),
        "refused": shape_of(hour.refused),
        "set_aside": list(hour.set_aside),
    }


def quarantine_shape(quarantine: "Quarantine") -> dict[str, Any]:
    """Return the hours and commits in a quarantine."""
    return {
        "name": quarantine.name,
        "hours": list(quarantine.hours),
        "commits": list(quarantine.commits),
        "created": moment(quarantine.created),
        "refused": shape_of(quarantine.refusal),
    }
