"""The number of SQL statements of each operation; design note 0019 says why each is needed."""

import pytest

from tests.harness.statements import OPERATIONS, statements_of

COUNTS = {
    "put": 3,
    "commit": 6,
    "branch, link, commit, merge": 18,
    "run of 1,000 links with a gate": 27,
    "run of three steps": 74,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_sends_no_more_statements_than_it_needs(name, tmp_path):
    found = statements_of(tmp_path / "lake", [name])[name]
    assert len(found) == COUNTS[name], f"{name}: {len(found)} statements\n{found}"
