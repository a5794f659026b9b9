"""Packs main, and is killed after a call on the stores: ``FOLDER NUMBER``; prints the end."""

import os
import signal
import sys

import graveler
from tests.harness.faults import FaultyKVStore, FaultyObjectStore, Script

script = Script()
with graveler.open(sys.argv[1]) as lake:
    lake._kv = FaultyKVStore(lake._kv, script)
    open_store = lake._open_store
    lake._open_store = lambda uri: FaultyObjectStore(open_store(uri), script)  # type: ignore[method-assign]
    repo = lake.repository("flights")
    number = int(sys.argv[2])
    script.arm(number, lambda _: os.kill(os.getpid(), signal.SIGKILL), moment="after")
    repo.pack()
    script.disarm()
    print("packed", flush=True)
