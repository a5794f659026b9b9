"""The use cases of one repository, a module each, and the branches that its users write to."""

from graveler.repository.branch import Branch
from graveler.repository.merges import MergeResult
from graveler.repository.preview import MergePreview

__all__ = ["Branch", "MergePreview", "MergeResult"]
