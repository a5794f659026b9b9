"""Branches, writes, commits and merges into main, and prints what is acknowledged: ``FOLDER NAME``."""

import sys

import graveler

with graveler.open(sys.argv[1]) as lake:
    repo = lake.repository("flights")
    for number in range(10):
        branch = repo.create_branch(f"{sys.argv[2]}-{number}")
        path = branch.put(f"{sys.argv[2]}/{number:02}", sys.argv[2].encode()).path
        branch.commit(path)
        merged = repo.merge(branch.name, "main")
        repo.delete_branch(branch.name)
        print(path, merged.commit.id, flush=True)
