"""Publishes with an isolated gate that prints its process id and waits: ``LAKE``."""

import os
import sys
import time

import graveler


@graveler.gate(isolated=True)
def waits(candidate):
    print(os.getpid(), flush=True)
    time.sleep(600)


repo = graveler.open(sys.argv[1], create=True).create_repository("flights")
with repo.run("hour", gates=[waits]) as run:
    run.put("a", b"1")
