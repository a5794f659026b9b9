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


def run(repo, gates):
    with repo.run("hour", gates=gates) as opened:
        opened.put("a", b"1")


@pytest.mark.parametrize(
    "gates", [refuses, also_refuses, [refuses], (also_refuses,), iter([refuses])]
)
def test_one_gate_stands_for_a_list_of_one(repo, gates):
    with pytest.raises(GateFailedError):
        run(repo, gates)


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ("schema", "no gate: 'schema'; give .* there are dbt_results, .*schema"),
        (["shcema"], "no gate: 'shcema'"),
        ([None], "no gate: None"),
        (7, "no gate: 7"),
        ({"schema": 1}, "no gate: {'schema': 1}"),
        ([checks.schema], r"checks.schema, which makes one: call it"),
        ([refuses, refuses], r"gates \['refuses'\]: names must differ"),
    ],
)
def test_what_is_no_gate_is_refused_before_the_run_is_opened(repo, gates, said):
    with pytest.raises(InvalidInputError, match=said):
        run(repo, gates)
    assert list(repo.runs.list()) == []
    with pytest.raises(InvalidInputError, match=said):
        repo.ingestion(gates=gates)


def test_one_gate_is_taken_wherever_gates_are(repo):
    opened = repo.runs.open("hour")
    opened.put("a", b"1")
    opened.commit_staged()
    assert not opened.judge(refuses)[0].passed
    with pytest.raises(GateFailedError):
        opened.publish(also_refuses)
    repo.ingestion(gates=refuses)
