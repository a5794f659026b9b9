"""The answers that a gate may give, and the verdicts that follow."""

import pickle
from dataclasses import replace
from typing import Any

import numpy
import pytest

import graveler
from graveler import checks
from graveler.errors import BackendUnavailableError, GateFailedError, InvalidInputError
from graveler.gates import Gate
from tests.gates import samples

# ruff: noqa: B015 - the tests compare and discard the result


def drops(candidate):
    len(list(candidate.entries())) > 100


def drops_membership(candidate):
    "b" in [entry.path for entry in candidate.entries()]


def yields(candidate):
    yield False


async def waits(candidate):
    return True


def test_these_pass(repo):
    """A gate that warns passes the candidate, and its own verdict does not."""
    answers: list[Any] = [None, True, "", numpy.bool_(True), numpy.array(True)[()]]
    gates = [Gate(f"g {number}", lambda _: answers.pop()) for number in range(5)]
    dies = Gate("dies", lambda _: bool(1 / 0), severity="warn")
    with repo.run("hour 05", gates=[*gates, dies]) as run:
        run.put("a/1", b"1")
    *passed, warned = run.result.verdicts
    assert all(verdict.passed for verdict in passed)
    assert (warned.passed, warned.died, warned.refuses) == (False, True, False)


@pytest.mark.parametrize(
    ("check", "reason", "died"),
    [
        (lambda _: False, "it returned False", False),
        (lambda _: numpy.bool_(False), "it returned False", False),
        (lambda _: "too few", "too few", False),
        (samples.asserts, "assertion failed: assert len(list(candidate.entries())) > 100", False),
        (drops, "throws the result away", True),
        (drops_membership, "throws the result away", True),
        (lambda _: 0, "it returned int 0: return None or True", True),
        (lambda _: [], "it returned list []", True),
        (lambda c: c.changes(), "it returned generator", True),
        (yields, "it returned generator", True),
        (lambda _: 1 / 0, "ZeroDivisionError: division by zero", True),
        (lambda _: graveler.nothing, "AttributeError: module 'graveler' has no attribute", True),
    ],
)
def test_these_refuse(repo, refused, check, reason, died):
    verdict = refused(repo, Gate("g", check))
    assert reason in verdict.reason
    assert verdict.died is died


@pytest.mark.parametrize("isolated", [False, True])
def test_a_gate_that_cannot_read_gives_no_verdict(disk, isolated):
    """The run stays open, so that a retry publishes it; a gate that warns does not stop it."""
    raises = Gate("g", samples.cannot_read, isolated=isolated)
    run = disk.runs.open("hour 05")
    run.put("a/1", b"1")
    run.commit("hour 05")
    with pytest.raises(BackendUnavailableError, match="gave no verdict"):
        run.publish(raises)
    assert disk.runs.get("hour 05").state == "OPEN"
    with pytest.raises(GateFailedError, match=r"too slow.*too few"):
        run.publish([raises, Gate("few", lambda _: "too few")])
    run = disk.runs.open("hour 05")
    (verdict,) = run.publish(replace(raises, severity="warn")).verdicts
    assert verdict.died


@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_coroutine_is_no_answer(repo, refused):
    assert "it returned coroutine" in refused(repo, Gate("g", waits)).reason  # type: ignore[arg-type]  # as untyped code may


def test_a_chained_comparison_in_an_assertion_is_allowed(repo):
    def chained(candidate):
        assert 0 < len(list(candidate.entries())) < 10
        if 0 < 1 < 2 and not (3 < 2 < 1):
            return
        raise AssertionError

    with repo.run("hour 05", gates=[chained]) as run:
        run.put("a/1", b"1")


def test_what_a_gate_reports_is_kept_small_and_plain(repo):
    def reports(candidate):
        candidate.report(
            rows=numpy.int64(3),
            share=0.5,
            nan=float("nan"),
            huge=2**70,
            nested={"a": (1, 2)},
            long="x" * 2_000,
            when=candidate.commit.created,
        )
        candidate.report(rows=4, **{f"n{number}": number for number in range(100)})

    with repo.run("hour 05", gates=[Gate("reports", reports, reads="created")]) as run:
        run.put("a/1", b"1")
    facts = repo.runs.get("hour 05").verdicts[0].facts
    assert facts == run.result.verdicts[0].facts
    assert (facts["rows"], facts["share"], facts["nan"]) == (4, 0.5, "nan")
    assert (facts["huge"], facts["nested"]) == (str(2**70), {"a": [1, 2]})
    assert len(facts["long"]) == 500
    assert len(facts) == 64


def test_a_strangers_header_is_escaped_in_error_and_log(repo, caplog):
    main = repo.branch("main")
    repo.gates.require("main", checks.freshness("t/", "1d", column="a"))
    main.put("t/a.csv", b"\x1b]0;name\x07\x1b[2Jx,b\n1,2\n")
    with pytest.raises(GateFailedError, match=r"\\x1b\]0;name\\x07") as caught:
        main.commit("hostile")
    assert str(caught.value).isprintable()
    assert caplog.messages
    assert all(message.isprintable() for message in caplog.messages)


def test_the_text_of_every_error_is_one_escaped_line():
    error = pickle.loads(pickle.dumps(InvalidInputError("a\x1b[2J\nb")))
    assert str(error) == "a\\x1b[2J b"
    assert str(error.saying(f"again: {error}")) == "again: a\\x1b[2J b"
