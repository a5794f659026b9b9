"""graveler on PySpark: start a session, read a version of a table, write the next version.

Spark reads and writes the files directly. Only the driver maps paths to files and files to
entries. No file is copied, and executors need no access to refs.
"""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names
from graveler.spark.preflight import preflight as preflight  # a module has the same name
from graveler.spark.session import session as session

if TYPE_CHECKING:
    from graveler.spark.collection import collector as collector
    from graveler.spark.compaction import Compaction as Compaction
    from graveler.spark.functions import register_sql as register_sql
    from graveler.spark.imports import import_ as import_
    from graveler.spark.imports import import_frame as import_frame
    from graveler.spark.reader import read as read
    from graveler.spark.submission import submit_settings as submit_settings
    from graveler.spark.submission import submitted_step as submitted_step
    from graveler.spark.tables import Tables as Tables
    from graveler.spark.tables import attach as attach
    from graveler.spark.transactions import Transaction as Transaction
    from graveler.spark.writer import write as write

__getattr__, _names, _lazy = lazy_names(__name__)
__all__ = sorted([*_lazy, "preflight", "session"])  # noqa: PLE0605 - a list


def __dir__() -> list[str]:
    return __all__.copy()
