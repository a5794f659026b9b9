"""Uncommitted entries: one key-value partition per staging token."""

from graveler.staging.area import StagingArea
from graveler.staging.combine import combine

__all__ = ["StagingArea", "combine"]
