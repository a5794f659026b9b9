"""Concurrent ticks of one hour."""

from collections.abc import Iterator

from graveler.gates import Candidate, Gate, gate
from graveler.ingest import HourState, Tick
from graveler.lake.repository import Repository
from tests.simulate.checkers import EVERYWHERE
from tests.simulate.evidence import Evidence
from tests.simulate.scenarios.actions import commit, put
from tests.simulate.scenarios.scenario import Program, Scenario
from tests.simulate.schedules.client import Client

HOUR = "2013-01-01T05:00Z"


@gate
def passes(candidate: Candidate) -> None:
    del candidate


@gate
def _refuses(candidate: Candidate) -> bool:
    del candidate
    return False


def _ingested(c: Client) -> None:
    """Commit an hour on an ingestion branch, and do not publish it."""
    c.put("k", "old")
    c.commit()
    c.create_branch("ingest", contents={"k": "old"})
    c.put("i", "hour", "ingest")
    c.commit("ingest")


def _tick(judged_by: Gate) -> Program:
    def work(repo: Repository, _message: str) -> str:
        return repo.ingestion(gates=[judged_by], on_refusal="quarantine").tick(HOUR).state

    return lambda c: c.other("tick", work, "ingest")


@gate
def _no_bad_path(candidate: Candidate) -> bool:
    return not candidate.exists("bad")


def _held(c: Client) -> None:
    """Hold an hour because of a bad path, and stage the repair."""
    c.put("k", "old")
    c.commit()
    c.create_branch("ingest", contents={"k": "old"})
    c.put("i", "hour", "ingest")
    c.put("bad", "hour", "ingest")
    _tick_held(c)
    c.delete("bad", "ingest")


def _tick_held(c: Client) -> None:
    def work(repo: Repository, _message: str) -> tuple[object, ...]:
        return _answer(repo.ingestion(gates=[_no_bad_path]).tick(HOUR))

    c.other("tick", work, "ingest")


def _answer(tick: Tick) -> tuple[object, ...]:
    return tick.state, tick.commit and tick.commit.id, tick.published and tick.published.id


def _one_answer(evidence: Evidence) -> Iterator[str]:
    """All ticks of a repaired hour, except the first, report that the hour is published."""
    answers = {tick.result for tick in evidence.of_kind("tick")[1:] if tick.ok}
    if len(answers) > 1:
        yield f"the ticks of one hour return {answers}"
    if any(state is not HourState.PUBLISHED for state, *_ in answers):
        yield f"a tick of a repaired hour returns {answers}"


def _published_or_set_aside(evidence: Evidence) -> Iterator[str]:
    """A change is either on the target or in one quarantine."""
    found = sorted(
        name
        for name, head in evidence.heads.items()
        if (name == "main" or name.startswith("quarantine"))
        and dict(evidence.commits[head].tree).get("i") == "hour"
    )
    if len(found) != 1:
        yield f"the hour is on {found}: one of main and a quarantine would be right"


def _corrected(c: Client) -> None:
    """Stage a write on the ingestion branch; others will correct the path on main."""
    c.put("k", "old")
    c.commit()
    c.create_branch("ingest", contents={"k": "old"})
    c.put("k", "mine", "ingest")
    c.put("n", "good", "ingest")
    c.put("k", "theirs")


def _tick_conflict(c: Client) -> None:
    def work(repo: Repository, _message: str) -> str:
        return repo.ingestion(on_refusal="quarantine").tick(HOUR).state

    c.other("tick", work, "ingest")


def _never_by_accident(evidence: Evidence) -> Iterator[str]:
    """The correction stays on main, and the older write is in quarantine or in main's history."""
    trees = {name: dict(evidence.commits[head].tree) for name, head in evidence.heads.items()}
    if not any(one.ok for one in evidence.of_kind("tick")):
        return
    if trees["main"].get("k") != "theirs":
        yield f"main has {trees['main'].get('k')!r} for the correction of others"
    history = [dict(evidence.commits[one].tree) for one in evidence.ancestors("main")]
    shelves = [tree for name, tree in trees.items() if name.startswith("quarantine")]
    if not any(tree.get("k") == "mine" for tree in (*history, *shelves)):
        yield "an acknowledged write is neither in quarantine nor in main's history"
    if trees["main"].get("n") != "good":
        yield "a conflict stopped another file"


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "tick-quarantine",
        {"passing": _tick(passes), "refusing": _tick(_refuses)},
        _ingested,
        checkers=(*EVERYWHERE, _published_or_set_aside),
    ),
    Scenario(
        "tick-conflict",
        {"first": _tick_conflict, "second": _tick_conflict, "committer": commit},
        _corrected,
        checkers=(*EVERYWHERE, _never_by_accident),
    ),
    Scenario(
        "tick-repair",
        {"first": _tick_held, "second": _tick_held, "writer": put("n", "late", "ingest")},
        _held,
        checkers=(*EVERYWHERE, _one_answer),
    ),
)
