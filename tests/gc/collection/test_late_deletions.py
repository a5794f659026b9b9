"""A request to delete whose reply was lost takes effect up to a minute later: no table is lost."""

from datetime import timedelta

import pytest

from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.errors import BackendUnavailableError
from graveler.fsck.check import fsck
from graveler.lake.factory import connect
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.servers.moto import Fault, moto_s3

NOW = timedelta(0)
LATE_S = 25


class LateClock(FakeClock):
    """A clock. A lost request to delete takes effect when it has passed 25 s after the request."""

    def __init__(self):
        super().__init__()
        self.lost = []

    def advance(self, by=None, **parts):
        now = super().advance(by, **parts)
        for due, path in [*self.lost]:
            if now >= due:
                self.lost.remove((due, path))
                _, bucket, key = path.split("/", 2)
                moto_s3().delete_object(bucket, key)
        return now

    def losing(self, times, part="/_graveler/"):
        """Return a function that notes the first requests to delete an object of this name."""
        seen = []

        def concerns(request):
            if not request.startswith("DELETE") or part not in request:
                return False
            seen.append(request)
            if len(seen) <= times:
                due = self.now() + timedelta(seconds=LATE_S)
                self.lost.append((due, request.partition(" ")[2]))
            return True

        return concerns


@pytest.fixture
def lakes(s3_bucket, s3_options, tmp_path):
    """The repository on a host that sweeps and on one that writes, their clock, and the lake."""
    clock, opened = LateClock(), []
    for host, seed in (("one", 1), ("two", 2)):
        config = LakeConfig(
            location=str(tmp_path),
            kv_uri=f"sqlite://{tmp_path / 'kv'}",
            storage_uri=f"s3://{s3_bucket}/lake",
            storage_options=s3_options,
            cache_folder=tmp_path / host,
        )
        ids = SequenceIds(seed * 1_000_000)
        opened.append(connect(config, clock=clock, ids=ids, background=Inline()))
    opened[0].create_repository("flights")
    yield *(lake.repository("flights") for lake in opened), clock, opened[0]
    for lake in opened:
        lake.close()


def commit_hour(repo, branch):
    """Commit a tree of a file that main has, so that each call makes the same table."""
    made = repo.create_branch(branch, "main")
    made.delete("06.csv")
    return made.commit("hour 05")


def condemned(repo):
    """Commit, delete and mark a table."""
    main = repo.branch("main")
    main.put_many([("05.csv", b"5"), ("06.csv", b"6")])
    main.commit("hours")
    commit_hour(repo, "hour")
    repo.delete_branch("hour")
    return repo.gc.mark(grace=NOW, window=NOW).id


def check_late_deletions(one, two, clock):
    """The table is written again, and all late requests take effect."""
    made = commit_hour(two, "again")
    clock.advance(minutes=1)
    assert clock.lost == []
    assert two.ref(made.id).get("05.csv") == b"5"
    assert list(fsck(one.stores).problems) == []


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.ERROR_AFTER])
def test_a_repeated_deletion_leaves_later_tables(lakes, s3_server, fault):
    one, two, clock, _ = lakes
    mark = condemned(one)
    with s3_server.failing(fault, times=1, concerns=clock.losing(1)):
        one.gc.sweep(mark)
    check_late_deletions(one, two, clock)


def test_a_sweep_that_fails_makes_the_next_one_wait(lakes, s3_server):
    one, two, clock, _ = lakes
    mark = condemned(one)
    lost = s3_server.failing(Fault.LOST_REQUEST, times=None, concerns=clock.losing(100))
    with lost, pytest.raises(BackendUnavailableError):
        one.gc.sweep(mark)
    clock.sleep(2)
    two.gc.sweep(mark)
    check_late_deletions(one, two, clock)


def test_a_purge_leaves_a_later_repository_alone(lakes, s3_server):
    _, _, clock, lake = lakes
    with s3_server.failing(Fault.LOST_REPLY, concerns=clock.losing(1, "/_graveler/marker")):
        lake.delete_repository("flights", purge=True)
    again = lake.create_repository("flights")
    clock.advance(minutes=1)
    assert clock.lost == []
    again.check_kv()
