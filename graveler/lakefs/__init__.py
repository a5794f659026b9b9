"""Import of lakeFS repositories: reading their ranges, metaranges and dumps of refs.

``docs/formats/lakefs.md`` has the byte tables of these files.
"""

from graveler.lakefs.importing import Imported, check_names, import_lakefs
from graveler.lakefs.namespace import Namespace
from graveler.lakefs.refs import LakefsRefs, read_refs
from graveler.lakefs.trees import Terms

__all__ = [
    "Imported",
    "LakefsRefs",
    "Namespace",
    "Terms",
    "check_names",
    "import_lakefs",
    "read_refs",
]
