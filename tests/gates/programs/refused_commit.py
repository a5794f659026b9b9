"""Commits a file that a required gate refuses, and prints the error: ``LAKE``."""

import sys

import graveler
from graveler.errors import GateFailedError

with graveler.open(sys.argv[1]) as lake:
    main = lake.repository("flights").branch("main")
    main.put("bad/1", b"1")
    try:
        main.commit("bad")
    except GateFailedError as error:
        print(error)
