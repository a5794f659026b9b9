"""Writes a table larger than the system's limit of file sizes, and prints the error: ``FILE``."""

import os
import resource
import signal
import sys
from pathlib import Path

from graveler.errors import StorageFullError
from graveler.sstable.writer import TableWriter

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    with TableWriter(Path(sys.argv[1])) as table:
        for number in range(100_000):
            table.records[b"%08d" % number] = os.urandom(100)
except StorageFullError as error:
    print(error)
