"""Every stored record keeps its bytes: ``stored_records.txt`` has what earlier versions wrote.

A record that is not in the file, or a change of the file for an existing record, is a change of the
stored format. ``stored_values.txt`` has what each record means.
"""

import json

import pytest

from graveler.base.records import encode_json
from graveler.committed.references import _encode as encode_addresses
from graveler.errors import CorruptionError
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.lakefs.state import NOTHING, ImportState
from graveler.model import BranchRecord, Move, RangeInfo
from graveler.refs import moves, settings
from graveler.refs.branches import encode_branch
from tests.foundations.forms import FORMS, ONE, STORED, TWO, VALUES, setting


@pytest.mark.parametrize("name", FORMS)
def test_a_record_keeps_its_bytes(name):
    encode, decode = FORMS[name]
    value = decode(STORED[name])
    assert repr(value) == VALUES[name].decode()
    assert encode(value) == STORED[name]


def test_the_rules_of_protection_keep_their_bytes():
    made = settings.Rules(
        {"main": settings.USUAL, "release-*": ("merge",)}, frozenset({"main", "b"})
    )
    encode, decode = setting(settings.PROTECTION)
    assert encode(made) == STORED["protection"]
    assert decode(STORED["protection"]) == made


def test_a_repaired_branch_does_not_record_its_loss():
    made = BranchRecord("dev", TWO, "t", lost=ONE)
    assert encode_branch(made) == STORED["branch that was repaired"]


def test_the_last_page_of_a_branch_keeps_its_bytes():
    raw = STORED["deleted branch"]
    moved = (*moves.decode_moves(STORED["page of moves"]), Move(9, "delete", TWO, "eve"))
    page = {"hidden": True, "moves": moved, "run": True}
    assert encode_json(page) == raw
    life = moves.Life("run-x", "b1", moved, 2, hidden=True, run=True)
    assert moves._decode_life(b"run-x/b1/deleted.00000002.2", raw) == life


def test_address_lists_and_imports_keep_their_bytes():
    listed = encode_addresses(b"\x07" * 32, [b"data/a", b"data/\xc3\xa9"])
    assert listed == STORED["addresses of a range"]
    kv = MemoryKVStore()
    state = ImportState(kv, "u", ["s3://b/"])
    info = RangeInfo(b"\x07" * 32, b"a", b"z", 12, 3_456)
    state.add_range("r1", info)
    state.add_range("r2", NOTHING)
    state.add_metarange("m1", ONE)
    state.flush()
    assert dict(kv.scan("lakefs:u")) == {
        name.removeprefix("import ").encode(): raw
        for name, raw in STORED.items()
        if name.startswith("import ")
    }
    again = ImportState(kv, "u", ["s3://b/"])
    assert again.ranges == {"r1": info, "r2": NOTHING}
    assert again.metaranges == {"m1": ONE}


def test_every_line_of_the_files_is_a_record_of_the_tests():
    others = {"branch that was repaired", "deleted branch", "addresses of a range", "protection"}
    assert {name for name in STORED if not name.startswith("import ")} == others | set(FORMS)
    assert set(VALUES) == set(FORMS)


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("branch", {"commit": 5}, "field 'commit' is 5, expected an id of 64 hexadecimal digits"),
        ("branch", {"sealed_order": "x"}, "field 'sealed_order' is 'x', expected 'oldest-first'"),
        ("branch", {"moves": [[0, 1, ONE, "a"]]}, r"field 'moves\[0\]\[1\]' is 1, expected text"),
        ("commit", {"created": 10**30}, "field 'created' is 1.*, expected a time from 1 to 9800"),
        ("commit", {"metadata": {"a": 1}}, "field 'metadata.a' is 1, expected text"),
        ("run", {"state": "ASLEEP"}, "field 'state' is 'ASLEEP', expected one of"),
        ("run", {"verdicts": [{"gate": "g"}]}, r"field 'verdicts\[0\].passed' is missing"),
        ("run", {"refusals": [5]}, r"field 'refusals\[0\]' is 5, expected an array of 3 items"),
        ("mark", {"freed": {"data": [1]}}, "field 'freed.data' is .1., expected an array of 2"),
        ("standing", {"held": []}, r"field 'held' is \[\], expected an object"),
        ("export", {"files": -1}, "field 'files' is -1, expected a whole number from 0 on"),
    ],
)
def test_damage_is_told_by_record_field_and_value(name, damage, said):
    stored = json.loads(STORED[name].decode("utf-8", "surrogatepass"))
    with pytest.raises(CorruptionError, match=f"cannot be read: {said}"):
        FORMS[name].decode(encode_json(stored | damage))


def test_the_last_page_of_a_users_branch_names_what_was_staged():
    moved = moves.decode_moves(STORED["page of moves"])
    page = {"hidden": False, "moves": moved, "run": False, "staged": ["t1", "t2"]}
    life = moves._decode_life(b"dev/b1/deleted.00000000.1", encode_json(page))
    assert life.staged == ("t1", "t2")
