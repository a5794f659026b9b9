"""Every way to get the protocol wrong is found out."""

import pytest

from graveler.repository import committing
from tests.simulate.mutants import MUTANTS
from tests.simulate.mutating import Edit, Mutant, OutdatedMutantError, mutated
from tests.simulate.mutation import hunt


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found_out(mutant):
    kill = hunt(mutant)
    assert kill.scenario, f"survived {kill.schedules} schedules"


def test_the_mutants_are_many_and_differ():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize(
    ("where", "old"),
    [
        ("repository.writing:_stage", "what was there once"),
        ("repository.writing:gone", "x"),
        ("repository.committing:_Committer.gone", "x"),
        ("repository.committing:_Committer", "x"),
    ],
)
def test_a_mutant_that_does_not_fit_the_code_any_more_fails(where, old):
    outdated = Mutant("outdated", (Edit(where, old, ""),), ("write-commit",))
    with pytest.raises(OutdatedMutantError, match="outdated"):
        hunt(outdated)


def test_afterwards_the_code_is_as_it_was():
    before = committing.overlap.__code__
    edit = Edit("repository.committing:overlap", "return ()", "return mine")
    with mutated(Mutant("m", (edit,), ())):
        assert committing.overlap(("a",), ("b",)) == ("a",)
    assert committing.overlap.__code__ is before
    assert committing.overlap(("a",), ("b",)) == ()
