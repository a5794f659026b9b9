"""The argument `gates`: one gate or several; anything else is refused before a run is opened."""

import pytest

import graveler
from graveler import checks
from graveler.errors import GateFailedError, InvalidInputError


@graveler.gate
def refuses(candidate):
    return "no"


def also_refuses(candidate):
    return "no"


@pytest.mark.parametrize(
    "gates", [refuses, also_refuses, [refuses], (also_refuses,), iter([refuses])]
)
def test_one_gate_stands_for_a_list_of_one(repo, gates):
    with pytest.raises(GateFailedError), repo.run("hour", gates=gates) as run:
        run.put("a", b"1")
    opened = repo.runs.open("hour")
    assert not opened.judge(refuses)[0].passed
    with pytest.raises(GateFailedError):
        opened.publish(also_refuses)
    repo.ingestion(gates=refuses)


NO_GATES = {
    "no gate: 'schema'; give .* there are accepted_values, .*schema": "schema",
    "no gate: 'shcema'": ["shcema"],
    "no gate: None": [None],
    "no gate: 7": 7,
    "no gate: {'schema': 1}": {"schema": 1},
    r"checks.schema, which makes one: call it": [checks.schema],
    r"gates \['refuses'\]: names must differ": [refuses, refuses],
}


@pytest.mark.parametrize("said", NO_GATES)
def test_what_is_no_gate_is_refused_before_the_run_is_opened(repo, said):
    with pytest.raises(InvalidInputError, match=said):
        repo.run("hour", gates=NO_GATES[said]).__enter__()
    assert list(repo.runs.list()) == []
    with pytest.raises(InvalidInputError, match=said):
        repo.ingestion(gates=NO_GATES[said])
