"""The records of a lake as JSON: the fields that ``--json`` promises."""

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from graveler.model import Change, Commit, Conflict, Entry

if TYPE_CHECKING:
    from graveler.ingest import Hour, Quarantine, Refusal
    from graveler.runs import RunRecord


def moment(when: datetime | None) -> str | None:
    """Return a time as ISO 8601, UTC."""
    return None if when is None else when.isoformat(timespec="microseconds")


def entry_shape(entry: Entry) -> dict[str, Any]:
    """Return an entry's fields."""
    return {
        "path": entry.path,
        "size": entry.size,
        "checksum": entry.checksum,
        "content_type": entry.content_type,
        "mtime": moment(entry.mtime),
        "metadata": dict(entry.metadata),
        "address": entry.address,
    }


def commit_shape(commit: Commit) -> dict[str, Any]:
    """Return a commit's fields."""
    return {
        "id": commit.id,
        "message": commit.message,
        "committer": commit.committer,
        "created": moment(commit.created),
        "parents": list(commit.parents),
        "generation": commit.generation,
        "metarange": commit.metarange,
        "metadata": dict(commit.metadata),
    }


def change_shape(change: Change) -> dict[str, Any]:
    """Return a change: path, kind, and the entries on both sides."""
    return {
        "path": change.path,
        "kind": str(change.kind),
        "before": None if change.before is None else entry_shape(change.before),
        "after": None if change.after is None else entry_shape(change.after),
    }


def conflict_shape(conflict: Conflict) -> dict[str, Any]:
    """Return a conflict: path, the three entries, and what changed each side."""
    entries = {"base": conflict.base, "source": conflict.source, "dest": conflict.dest}
    changes = {
        "source_change": conflict.source_change,
        "dest_change": conflict.dest_change,
    }
    return {
        "path": conflict.path,
        **{side: None if entry is None else entry_shape(entry) for side, entry in entries.items()},
        "bases_disagree": conflict.bases_disagree,
        **{side: None if change is None else asdict(change) for side, change in changes.items()},
    }


def run_shape(record: "RunRecord") -> dict[str, Any]:
    """Return what is kept of a run, but for what fences its writers off."""
    return {
        "key": record.key,
        "state": str(record.state),
        "attempt": record.attempt,
        "branch": record.branch,
        "into": record.into,
        "base": record.base,
        "head": record.head,
        "commit": record.commit,
        "reason": record.reason,
        "owner": record.owner,
        "on_failure": record.on_failure,
        "lease_until": moment(record.lease_until),
        "expires": moment(record.expires),
        "rollback": record.rollback,
        "inputs": [{"commit": read.commit, "prefix": read.prefix} for read in record.inputs],
        "refusals": [
            {"at": moment(one.at), "reason": one.reason, "gates": list(one.gates)}
            for one in record.refusals
        ],
        "verdicts": [asdict(verdict) for verdict in record.verdicts],
        "metadata": dict(record.metadata),
        "created": moment(record.created),
        "opened": moment(record.opened),
        "updated": moment(record.updated),
    }


def refusal_shape(refusal: "Refusal | None") -> dict[str, Any] | None:
    """Return why something was refused."""
    if refusal is None:
        return None
    return {"at": moment(refusal.at), "reason": refusal.reason, "gates": list(refusal.gates)}


def hour_shape(hour: "Hour") -> dict[str, Any]:
    """Return where an hour of an ingestion stands."""
    return {
        "hour": hour.hour,
        "state": str(hour.state),
        "commit": None if hour.commit is None else hour.commit.id,
        "published": None if hour.published is None else hour.published.id,
        "late": list(hour.late),
        "quarantined": list(hour.quarantined),
        "refused": refusal_shape(hour.refused),
    }


def quarantine_shape(kept: "Quarantine") -> dict[str, Any]:
    """Return what is in quarantine."""
    return {
        "name": kept.name,
        "hours": list(kept.hours),
        "commits": list(kept.commits),
        "created": moment(kept.created),
        "refused": refusal_shape(kept.refusal),
    }
