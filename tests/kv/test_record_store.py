"""Records that change by compare-and-set: races, lost replies, and reads after them."""

import pytest

from graveler.errors import BackendUnavailableError, OutcomeUnknownError, ThrottledError
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.kv.record_store import RecordStore
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.faults import lost_reply
from tests.harness.faults import FaultyKVStore, Script


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def kv():
    return MemoryKVStore()


def records_of(kv, prefix=b""):
    """Return a store of texts with a nonce, as ``<text>|<nonce>``."""
    ids = SequenceIds()
    return RecordStore(
        kv,
        "p",
        prefix=prefix,
        encode=lambda text: f"{text}|{ids.unique()}".encode(),
        decode=lambda raw: raw.decode().partition("|")[0],
    )


def extend(records, letter):
    return records.update(
        "name",
        lambda text: (text or "") + letter,
        what="text 'name'",
        clock=FakeClock(),
        ids=SequenceIds(),
    )


def test_an_update_reads_once_and_writes_what_it_changes(kv, script):
    records = records_of(FaultyKVStore(kv, script))
    script.arm(99, lost_reply)
    assert extend(records, "a") == "a"
    assert script.calls == ["get", "set_if"]
    assert extend(records, "") == "a"
    assert script.calls == ["get", "set_if", "get"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_update_lands_once_when_its_reply_is_lost(kv, script, moment):
    records = records_of(FaultyKVStore(kv, script))
    extend(records, "a")
    script.arm(2, lost_reply, moment=moment)
    assert extend(records, "b") == "ab"
    assert script.disarm() == "set_if"
    assert records.get("name") == "ab"


def test_an_update_that_loses_a_race_is_made_again(kv, script):
    records = records_of(FaultyKVStore(kv, script))
    script.arm(2, lambda _: extend(records_of(kv), "x"))
    assert extend(records, "a") == "xa"


def test_an_update_that_loses_every_race_says_so(kv, script):
    records, other = records_of(FaultyKVStore(kv, script)), records_of(kv)

    def lose(text):
        extend(other, "x")
        return (text or "") + "a"

    with pytest.raises(ThrottledError, match=r"text 'name' is busy: lost 200 races; try again"):
        records.update("name", lose, what="text 'name'", clock=FakeClock(), ids=SequenceIds())
    assert records.get("name") == "x" * 200


def test_a_write_answers_whether_it_landed(kv, script):
    records = records_of(FaultyKVStore(kv, script))
    assert records.write("name", "a")
    assert not records.write("name", "b")
    _, predicate = records.find("name")
    script.arm(1, lost_reply, moment="after")
    assert records.remove("name", predicate)
    assert records.find("name") is None


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("operation", ["write", "remove", "update"])
def test_a_lost_reply_stays_unknown_without_an_answer(kv, script, monkeypatch, moment, operation):
    store = FaultyKVStore(kv, script)
    records = records_of(store)
    records.write("name", "a")
    _, predicate = records.find("name")

    def silent(*_):
        raise BackendUnavailableError("no answer")

    def strike(call):
        monkeypatch.setattr(store, "get", silent)
        lost_reply(call)

    operations = {
        "write": lambda: records.write("name", "b", predicate),
        "remove": lambda: records.remove("name", predicate),
        "update": lambda: extend(records, "b"),
    }
    script.arm(2 if operation == "update" else 1, strike, moment=moment)
    with pytest.raises(OutcomeUnknownError):
        operations[operation]()


def test_a_scan_ends_with_its_prefix(kv):
    records = records_of(kv)
    for name in ("a/1", "a/2", "b/1"):
        records.write(name, name)
    assert list(records_of(kv, b"a/").scan()) == [(b"1", "a/1"), (b"2", "a/2")]
