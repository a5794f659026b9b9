"""Forks a child that ends immediately, while other processes encode ranges."""

import os
import sys

from graveler.committed.range_writer import RangeWriter
from tests.committed.encoders import SMALL, new_store, records, write_by_processes

write_by_processes()

with RangeWriter(new_store(2), SMALL) as writer:
    writer.add_all(records(1_000))
    child = os.fork()
    if child == 0:
        del writer
        sys.exit()
    _, status = os.waitpid(child, 0)
    assert status == 0
    writer.add_all(records(1_000, start=1_000))
    assert sum(info.count for info in writer.finish()) == 2_000
