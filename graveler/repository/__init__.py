"""The use cases of one repository, a module each; views to read, branches to write."""

from graveler.repository.branch import Branch
from graveler.repository.merging import MergeResult
from graveler.repository.preview import MergePreview
from graveler.repository.ref import Ref
from graveler.repository.stores import Stores
from graveler.repository.view import View

__all__ = ["Branch", "MergePreview", "MergeResult", "Ref", "Stores", "View"]
