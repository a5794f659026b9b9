import pytest

from graveler.errors import CorruptionError
from graveler.gc.reachability.trees import keys_of_entry
from graveler.model import Entry
from graveler.records import encode_entry, encode_value


@pytest.mark.parametrize(
    ("address", "keys"),
    [
        ("data/1/part-0.parquet", {"data/1/part-0.parquet"}),
        ('data/quoted "x".csv', {'data/quoted "x".csv'}),
        ("data/tab\tx", {"data/tab\tx"}),
        ("data/\u00e9\U0001f980", {"data/\u00e9\U0001f980"}),
        ("data/", {"data/"}),
        ("elsewhere/x", {"elsewhere/x"}),
        ("file:///lake/objects/data/a b", set()),
        ("s3://bucket/data/x", set()),
    ],
)
def test_the_keys_that_an_address_names(address, keys):
    value = encode_entry(Entry("p", address, 1, metadata={"x": 'data/"'}))[1]
    assert {key.decode() for key in keys_of_entry(b"p", value)} == keys


def test_an_entry_that_makes_no_sense_is_damage():
    with pytest.raises(CorruptionError):
        keys_of_entry(b"p", encode_value(b"i" * 32, b"[1]"))
