"""The mutants fit the code and name tests; `python -m tests.keep.mutants` hunts all of them."""

from pathlib import Path

import pytest

from tests.harness.programs import ROOT
from tests.keep.mutants.hunting import found_by
from tests.keep.mutants.table import BY_PACKAGE, MUTANTS
from tests.simulate.mutants.patch import mutated


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fits_the_code_and_names_tests(name):
    with mutated(MUTANTS[name]):
        pass
    for test in MUTANTS[name].scenarios:
        file, _, function = test.partition("::")
        assert function in Path(ROOT, "tests", file).read_text()


def test_the_names_of_mutants_differ():
    assert sum(map(len, BY_PACKAGE.values())) == len(MUTANTS)


@pytest.mark.parametrize("package", BY_PACKAGE)
def test_the_first_mutant_of_a_package_is_found(package):
    assert found_by(BY_PACKAGE[package][0].name)
