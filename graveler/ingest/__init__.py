"""Ingestion branches: writers stage continuously, and once an hour the staged files are published."""

from graveler.ingest.hours import (
    ARRIVED,
    Hour,
    HourKind,
    Release,
    Status,
    Tick,
    commit_hours,
    file_hours,
)
from graveler.ingest.ingestion import Ingestion
from graveler.ingest.records import HourState, Quarantine
from graveler.ingest.unpublished import INGEST
from graveler.runs.record import Refusal

__all__ = [
    "ARRIVED",
    "INGEST",
    "Hour",
    "HourKind",
    "HourState",
    "Ingestion",
    "Quarantine",
    "Refusal",
    "Release",
    "Status",
    "Tick",
    "commit_hours",
    "file_hours",
]
