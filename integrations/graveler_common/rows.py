"""Runs, verdicts, ticks and hours as plain values, for logs, tables, events and metadata."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from graveler.gates import Verdict
from graveler.ingest import Tick
from graveler.lake import Reaped


def hour_text(moment: datetime) -> str:
    """Return a time as the metadata of commits has it: ``2013-01-01T05:00Z``."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def reaped_row(reaped: Reaped) -> dict[str, str]:
    """Return what the reaper did to one run."""
    return {
        "key": reaped.key,
        "branch": reaped.branch,
        "from": str(reaped.from_state),
        "to": str(reaped.to_state),
        "reason": reaped.reason,
    }


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict; ``died`` is a gate that gave no answer."""
    return {
        "gate": verdict.gate,
        "passed": verdict.passed,
        "severity": verdict.severity,
        "reason": verdict.reason,
        "died": verdict.died,
        "seconds": round(verdict.seconds, 3),
    }


def refusal_text(verdicts: Iterable[Verdict]) -> str:
    """Return which gates refuse and why, "" if none does."""
    return "; ".join(f"{each.gate}: {each.reason}" for each in verdicts if each.refuses)


def tick_row(tick: Tick) -> dict[str, Any]:
    """Return the result of an hour's tick."""
    return {
        "hour": tick.hour,
        "state": str(tick.state),
        "commit": tick.commit and tick.commit.id,
        "published": tick.published and tick.published.id,
        "late": list(tick.late),
        "quarantined": list(tick.quarantined),
        "refused": tick.refused and tick.refused.reason,
    }
