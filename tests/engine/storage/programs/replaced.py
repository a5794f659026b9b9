"""Commit, replace the open folder of the key-value store by an earlier copy, write, and end."""

import logging
import shutil
import sys
from pathlib import Path

import graveler
from graveler.errors import KVOutdatedError

logging.disable()  # the clean-up after a commit may come when the folder is replaced
place = Path(sys.argv[1])
lake = graveler.open(place, create=True)
main = lake.create_repository("flights").branch("main")
main.put("kept", b"1")
main.commit("kept")
shutil.copytree(place / "kv", place / "copy")
main.put("late", b"1")
main.commit("late")
shutil.rmtree(place / "kv")
(place / "copy").rename(place / "kv")
try:
    main.put("lost", b"1")
except KVOutdatedError:
    print("refused")
