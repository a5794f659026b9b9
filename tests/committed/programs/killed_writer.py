"""Writes ranges that two other processes encode, and prints their ids, until it is killed."""

import time

from graveler.committed.range_writer import RangeWriter
from tests.committed.encoders import SMALL, new_store, records, write_by_processes

write_by_processes()

with RangeWriter(new_store(2), SMALL) as writer:
    writer.add_all(records(1_000))
    assert writer._workers is not None
    print(*(worker.process.pid for worker in writer._workers._workers), flush=True)
    time.sleep(300)
