"""The same content is written again after a collection: another host's cache does no harm."""

from dataclasses import replace
from datetime import timedelta

import pytest

from graveler.config import LakeConfig
from graveler.fsck.check import fsck
from graveler.lake.factory import connect

NOW = timedelta(0)


@pytest.fixture
def config(tmp_path):
    return LakeConfig(
        location=str(tmp_path),
        kv_uri=f"sqlite://{tmp_path / 'kv'}",
        storage_uri=f"file://{tmp_path / 'objects'}",
        cache_folder=tmp_path / "cache-1",
    )


def land(repo):
    """Write the hour on a separate branch."""
    hour = repo.create_branch("hour")
    for part in range(3):
        hour.put(f"input/part-{part}.csv", b"%d" % part)
    return hour.commit("hour 05")


def contents(repo, ref):
    return {entry.path: repo.ref(ref).get(entry.path) for entry in repo.ref(ref).entries()}


WHOLE = {f"input/part-{part}.csv": b"%d" % part for part in range(3)}


def test_equal_content_after_a_collection_is_read_by_every_host(config, tmp_path):
    other = replace(config, cache_folder=tmp_path / "cache-2")
    with connect(config) as first, connect(other) as second:
        one = first.create_repository("flights")
        two = second.repository("flights")
        land(one)
        assert contents(two, "hour") == WHOLE  # the second host has it in memory and on disk
        one.delete_branch("hour")
        one.gc.run(grace=NOW, window=NOW)
        land(one)
        assert contents(one, "hour") == contents(two, "hour") == WHOLE
        branch = two.branch("hour")
        branch.put("input/part-9.csv", b"9")
        branch.commit("one more")
        for repo in (one, two):
            assert contents(repo, "hour") == WHOLE | {"input/part-9.csv": b"9"}
            assert list(fsck(repo.stores).problems) == []
        one.merge("hour", into="main")
    with connect(replace(config, cache_folder=None)) as third:
        repo = third.repository("flights")
        assert contents(repo, "main") == WHOLE | {"input/part-9.csv": b"9"}
