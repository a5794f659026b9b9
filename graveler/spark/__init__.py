"""graveler on PySpark: a session, reading a version of a table, writing the next one.

Spark reads and writes the files themselves, at its own speed; the driver alone turns paths
into files and files into entries. No file is copied, and executors need no access to refs.
"""

from graveler.spark.compaction import Compaction
from graveler.spark.imports import import_, import_frame
from graveler.spark.preflight import preflight
from graveler.spark.reader import read
from graveler.spark.session import session
from graveler.spark.tables import Tables, attach
from graveler.spark.transactions import Transaction
from graveler.spark.writer import write

__all__ = [
    "Compaction",
    "Tables",
    "Transaction",
    "attach",
    "import_",
    "import_frame",
    "preflight",
    "read",
    "session",
    "write",
]
