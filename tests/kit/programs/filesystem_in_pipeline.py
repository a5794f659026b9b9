"""A pipeline that loads the filesystem first."""

import sys

from graveler.testing import simulate


def pipeline(repo):
    from graveler.fs import GravelerFileSystem, storage_options, url

    with repo.run("hour 05") as run:
        GravelerFileSystem(**storage_options(run)).pipe(url(run, "a"), b"one")


assert "fsspec" not in sys.modules
simulate(pipeline, most=10)
