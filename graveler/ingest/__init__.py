"""Ingestion branches: writers stage all the time, once an hour what is there is published."""

from graveler.ingest.hours import hours_told
from graveler.ingest.ingestion import Ingestion
from graveler.ingest.line import INGEST
from graveler.ingest.record import HourState, Quarantine
from graveler.ingest.report import Hour, Release, Status, Tick
from graveler.runs.record import Refusal

__all__ = [
    "INGEST",
    "Hour",
    "HourState",
    "Ingestion",
    "Quarantine",
    "Refusal",
    "Release",
    "Status",
    "Tick",
    "hours_told",
]
