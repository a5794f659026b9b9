"""Forks a child that ends immediately, while a thread writes ranges."""

import os
import sys
from threading import Event, Thread

from graveler.committed.ranges.range_writer import RangeWriter
from graveler.model import RangeInfo
from tests.committed.trees import WHOLE, new_store, record

begun, go = Event(), Event()
ranges: list[RangeInfo] = []


def write():
    with RangeWriter(new_store(), WHOLE) as writer:
        writer.add_all([record("a")])
        begun.set()
        go.wait(30)
        ranges.extend(writer.finish())


thread = Thread(target=write)
thread.start()
begun.wait(30)
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
go.set()
thread.join()
assert len(ranges) == 1
