"""Collects until it is killed: ``python -m tests.gc.collection.collecting_child FOLDER``."""

import sys
from datetime import timedelta
from itertools import count

import graveler

NOW = timedelta(0)


def main(folder: str) -> None:
    with graveler.open(folder) as lake:
        repo = lake.repository("flights")
        collector = repo.gc
        collector._lease_seconds = 0.2  # the end of a killed process is noticed soon
        sys.stdout.write("go\n")
        sys.stdout.flush()
        for number in count():
            branch = repo.create_branch(f"tmp-{number}", exist_ok=True)
            branch.put("x", b"garbage %d" % number)
            branch.put("y", b"garbage")
            branch.commit("garbage", allow_empty=True)
            repo.delete_branch(f"tmp-{number}")
            collector.run(grace=NOW, window=NOW)


if __name__ == "__main__":
    main(sys.argv[1])
