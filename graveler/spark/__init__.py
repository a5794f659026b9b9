"""graveler on PySpark: start a session, read a version of a table, write the next version.

Spark reads and writes the files directly. Only the driver maps paths to files and files to
entries. No file is copied, and executors need no access to refs.
"""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

if TYPE_CHECKING:
    from graveler.frames.spark.reader import read as read
    from graveler.frames.spark.session import session as session
    from graveler.frames.spark.session import submit_settings as submit_settings
    from graveler.frames.spark.session import submitted_step as submitted_step
    from graveler.frames.spark.writer import write as write
    from graveler.spark.compaction import Compaction as Compaction
    from graveler.spark.tables import Tables as Tables
    from graveler.spark.tasks.checks import fsck as fsck
    from graveler.spark.tasks.collection import collector as collector
    from graveler.spark.tasks.commits import commit as commit
    from graveler.spark.tasks.exports import export as export
    from graveler.spark.tasks.imports import import_ as import_
    from graveler.spark.tasks.imports import import_frame as import_frame
    from graveler.spark.tasks.preflight import preflight as preflight
    from graveler.spark.transactions import Transaction as Transaction

__getattr__, __dir__, __all__ = lazy_names(__name__)
