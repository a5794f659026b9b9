"""Built-in checks: functions that each return a gate.

Most take ``prefix`` first, the folder to judge, or ``table=``, a table of the catalog, in place of it. All take the fields of a gate as options: ``name``,
``severity``, ``timeout``, ``isolated``, ``memory``. With ``scope="changes"`` a check reads the files
that a run adds or replaces, with ``scope="all"`` all files of the candidate. A prefix without files
is refused, because it is most often mistyped; ``missing="allow"`` permits it. Arguments with which
a check could never refuse or never pass raise InvalidInputError.
"""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names
from graveler.gates.gate import BUILT_IN

if TYPE_CHECKING:
    from graveler.gates.checks.columns import accepted_values as accepted_values
    from graveler.gates.checks.columns import in_range as in_range
    from graveler.gates.checks.columns import not_null as not_null
    from graveler.gates.checks.columns import refers_to as refers_to
    from graveler.gates.checks.columns import unique as unique
    from graveler.gates.checks.dbt import dbt_results as dbt_results
    from graveler.gates.checks.files import file_format as file_format
    from graveler.gates.checks.files import file_size as file_size
    from graveler.gates.checks.files import freshness as freshness
    from graveler.gates.checks.paths import nothing_deleted_outside as nothing_deleted_outside
    from graveler.gates.checks.paths import only_within as only_within
    from graveler.gates.checks.rows import partition_rows as partition_rows
    from graveler.gates.checks.rows import row_count as row_count
    from graveler.gates.checks.rows import row_count_change as row_count_change
    from graveler.gates.checks.rows import same_hour as same_hour
    from graveler.gates.checks.schemas import schema as schema
    from graveler.gates.checks.tables import pandera as pandera
    from graveler.gates.checks.tables import sql as sql

__getattr__, __dir__, __all__ = lazy_names(__name__)
BUILT_IN.update(dict.fromkeys(__all__))
