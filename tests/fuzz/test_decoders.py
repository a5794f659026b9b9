"""Every decoder detects damage in a number of seeded inputs; `make fuzz` tries more."""

from random import Random

import pytest

from tests.fuzz.fuzzing import Tally, fuzz, read_damaged
from tests.fuzz.targets import targets

INPUTS = 400
READS = 100


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_a_damaged_record_is_refused_by_an_error_that_names_it(target):
    tally = Tally(target.name, target.covered)
    random = Random(target.name)
    for _ in range(INPUTS):
        fuzz(target, tally, random)
    assert tally.good, "\n".join(tally.failures)
    assert tally.refused


def test_reads_of_a_damaged_lake_raise_only_graveler_errors():
    tally = Tally("reads")
    random = Random("reads")
    for _ in range(READS):
        read_damaged(tally, random)
    assert tally.good, "\n".join(tally.failures)
    assert tally.refused
    assert tally.equal


def test_sound_records_decode():
    for target in targets():
        for key, raw in target.seeds:
            target.decode(key, raw)
