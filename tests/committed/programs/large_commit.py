"""Commits entries that another process encodes. Its main part has no ``__main__`` guard."""

import sys
from pathlib import Path

import graveler
from graveler.committed.splitting import Splitting
from tests.committed.encoders import write_by_processes

write_by_processes()

with graveler.init(Path(sys.argv[1]) / "lake") as lake:
    repo = lake.create_repository("large", splitting=Splitting("directory", max_bytes=20_000))
    main = repo.branch("main")
    main.put_many((f"{number // 50:03d}/{number:05d}", b"x") for number in range(2_000))
    main.commit("all of them")
    print(sum(1 for _ in main.list()), "paths")
