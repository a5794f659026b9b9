"""Accept the state of a lake, print its files, and commit one more."""

import sys

import graveler

with graveler.open(sys.argv[1]) as lake:
    lake.accept("flights")
    main = lake.repository("flights").branch("main")
    print([entry.path for entry in main.entries()])
    main.put("next", b"1")
    main.commit("next")
