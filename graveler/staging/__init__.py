"""Uncommitted entries: one key-value partition per staging token."""

from graveler.staging.area import HOLD, StagingArea, is_laid, laid_token
from graveler.staging.combine import combine

__all__ = ["HOLD", "StagingArea", "combine", "is_laid", "laid_token"]
