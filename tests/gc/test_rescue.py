"""What a writer does with an existing table, in each of the table's states."""

import pytest

from graveler.errors import ThrottledError
from graveler.gc.files import FileRecord, FileRecords, FileState, Rescuer
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.testing.clock import FakeClock
from graveler.testing.faults import ProcessDied, lost_reply
from tests.harness.faults import FaultyKVStore, Script

TABLE = bytes(range(32))


class Waking(FakeClock):
    """A clock whose sleep lets other processes work."""

    def __init__(self, work):
        super().__init__()
        self.work = work
        self.slept = 0

    def sleep(self, seconds):
        super().sleep(seconds)
        self.slept += 1
        self.work(self.slept)


@pytest.fixture
def kv():
    return MemoryKVStore()


@pytest.fixture
def files(kv):
    return FileRecords(kv, "u")


def put_never():
    raise AssertionError("the table is there")


def in_state(files, state):
    found = files.find(TABLE)
    if found is not None:
        assert files.remove(TABLE, found[1])
    assert files.write(TABLE, FileRecord("m", state))


def test_what_is_condemned_stays(kv, files):
    in_state(files, FileState.CONDEMNED)
    assert Rescuer(kv, "u", clock=FakeClock())(TABLE, put_never) is False
    assert files.find(TABLE) is None


@pytest.mark.parametrize("absent", [True, False])
def test_what_was_deleted_is_put_before_its_record_goes(kv, files, absent):
    in_state(files, FileState.DELETED)
    recorded = []

    def put():
        recorded.append(files.find(TABLE) is not None)
        return absent

    assert Rescuer(kv, "u", clock=FakeClock())(TABLE, put) is absent
    assert recorded == [True]
    assert files.find(TABLE) is None


def test_who_dies_putting_it_leaves_the_record_to_the_next(kv, files):
    in_state(files, FileState.DELETED)

    def dies():
        raise ProcessDied("put")

    with pytest.raises(ProcessDied):
        Rescuer(kv, "u", clock=FakeClock())(TABLE, dies)
    assert files.find(TABLE) is not None


def test_what_is_being_deleted_is_waited_for(kv, files):
    in_state(files, FileState.DELETING)
    clock = Waking(lambda slept: in_state(files, FileState.DELETED) if slept == 5 else None)
    assert Rescuer(kv, "u", clock=clock)(TABLE, lambda: True) is True
    assert clock.slept == 5
    assert files.find(TABLE) is None


def test_a_deletion_that_does_not_end_is_told_of(kv, files):
    in_state(files, FileState.DELETING)
    with pytest.raises(ThrottledError, match="`graveler gc sweep m` finishes it"):
        Rescuer(kv, "u", clock=FakeClock())(TABLE, put_never)
    assert files.find(TABLE) is not None


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_reply_is_looked_after(kv, files, moment):
    in_state(files, FileState.CONDEMNED)
    script = Script()
    rescue = Rescuer(FaultyKVStore(kv, script), "u", clock=FakeClock())
    script.arm(2, lost_reply, moment=moment)
    assert rescue(TABLE, put_never) is False
    assert script.disarm() == "delete_if"
    assert files.find(TABLE) is None


def test_a_sweep_that_is_quicker_is_noticed(kv, files):
    """The sweep deletes the table between the read of its record and the record's removal."""
    in_state(files, FileState.CONDEMNED)
    script = Script()
    rescue = Rescuer(FaultyKVStore(kv, script), "u", clock=FakeClock())
    script.arm(2, lambda _: in_state(files, FileState.DELETED))
    assert rescue(TABLE, lambda: True) is True
    assert files.find(TABLE) is None
