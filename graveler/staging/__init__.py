"""Uncommitted entries, with a key-value partition for each staging token."""

from graveler.staging.area import HOLD, Staged, StagingArea, combine, is_laid, laid_token

__all__ = ["HOLD", "Staged", "StagingArea", "combine", "is_laid", "laid_token"]
