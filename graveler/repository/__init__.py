"""The use cases of one repository, a module each; views to read, branches to write."""

from graveler.repository.branch import Branch
from graveler.repository.merge.merges import MergeResult
from graveler.repository.merge.preview import MergePreview
from graveler.repository.stores import Stores
from graveler.repository.view import Ref, View

__all__ = ["Branch", "MergePreview", "MergeResult", "Ref", "Stores", "View"]
