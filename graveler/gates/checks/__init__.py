"""Built-in checks: functions that each return a gate.

Most take ``prefix`` first, the folder to judge. All take the fields of a gate as options: ``name``,
``severity``, ``timeout``, ``isolated``, ``memory``. With ``scope="changes"`` a check reads the files
that a run adds or replaces, with ``scope="all"`` all files of the candidate. A prefix without files
is refused, because it is most often mistyped; ``missing="allow"`` permits it. Arguments with which
a check could never refuse or never pass raise InvalidInputError.
"""

from graveler.gates.checks.columns import accepted_values, in_range, not_null, refers_to, unique
from graveler.gates.checks.dbt import dbt_results
from graveler.gates.checks.files import file_format, file_size, freshness
from graveler.gates.checks.paths import nothing_deleted_outside, only_within
from graveler.gates.checks.rows import row_count, row_count_change, same_hour
from graveler.gates.checks.schemas import schema
from graveler.gates.checks.tables import pandera, sql

__all__ = [
    "accepted_values",
    "dbt_results",
    "file_format",
    "file_size",
    "freshness",
    "in_range",
    "not_null",
    "nothing_deleted_outside",
    "only_within",
    "pandera",
    "refers_to",
    "row_count",
    "row_count_change",
    "same_hour",
    "schema",
    "sql",
    "unique",
]
