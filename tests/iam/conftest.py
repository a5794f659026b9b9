import pytest

from graveler.iam.directory import Directory
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.testing.clock import FakeClock, SequenceIds


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def kv():
    return MemoryKVStore()


@pytest.fixture
def iam(kv, clock):
    """The users of a lake: ann is the admin, bob is in the group team, which may read flights."""
    iam = Directory(kv, clock=clock, ids=SequenceIds())
    for name in ("ann", "bob"):
        iam.create_user(name)
    iam.create_group("team")
    iam.add_member("team", "bob")
    iam.put_policy("readers", ["allow read on flights"])
    iam.attach("readers", group="team")
    return iam
