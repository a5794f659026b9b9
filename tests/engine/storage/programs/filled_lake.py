"""Fills a lake, and then closes it or dies: ``FOLDER closes|dies``."""

import os
import sys

import graveler

lake = graveler.open(sys.argv[1], create=True)
repo = lake.create_repository("flights")
main = repo.branch("main")
main.put("a/1", b"one")
main.commit("first")
repo.create_branch("dev").put("b", b"two")
repo.branch("dev").commit("second")
repo.tags.create("v1", "dev")
with repo.run("hourly") as run:
    run.put("c", b"three")
main.put("staged", b"four")
if sys.argv[2] == "dies":
    os._exit(0)
lake.close()
