"""The mutants fit the code, and a hunt detects one; `make simulate` hunts all of them."""

import pytest

from graveler.repository.commits import sealing
from tests.simulate.mutants.mutation import MUTANTS, hunt
from tests.simulate.mutants.patch import Edit, Mutant, OutdatedMutantError, mutated


@pytest.mark.parametrize("mutant", [MUTANTS[0], MUTANTS[-1]], ids=["first", "last"])
def test_a_hunt_detects_a_mutant(mutant):
    kill = hunt(mutant)
    assert kill.scenario, f"survived {kill.schedules} schedules"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_code(mutant):
    with mutated(mutant):
        pass


def test_the_mutants_are_many_and_differ():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    assert sum(mutant.deep for mutant in MUTANTS) <= 4


@pytest.mark.parametrize(
    ("where", "old"),
    [
        ("repository.writes.staged:_stage", "what was there once"),
        ("repository.writes.staged:gone", "x"),
        ("repository.commits.sealing:_Committer.gone", "x"),
        ("repository.commits.sealing:_Committer", "x"),
    ],
)
def test_a_mutant_that_does_not_fit_the_code_any_more_fails(where, old):
    outdated = Mutant("outdated", (Edit(where, old, ""),), ("write-commit",))
    with pytest.raises(OutdatedMutantError, match="outdated"):
        hunt(outdated)


def test_afterwards_the_code_is_as_it_was():
    before = sealing.overlap.__code__
    edit = Edit("repository.commits.sealing:overlap", "mine.__contains__", "bool")
    with mutated(Mutant("m", (edit,), ())):
        assert sealing.overlap(("a",), ("b",)) == ("b",)
    assert sealing.overlap.__code__ is before
    assert sealing.overlap(("a",), ("b",)) == ()
