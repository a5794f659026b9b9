"""A fault at every call of a tick or a release, and then the same call again: no file is lost."""

from contextvars import Context

import pytest

from graveler.errors import GravelerError
from graveler.ingest import HourState
from graveler.ingest.quarantine import Quarantines
from graveler.testing.faults import ProcessDied
from tests.harness.accounts import check_accounts, whereabouts
from tests.harness.faults import dies
from tests.harness.judges import no_bad_file
from tests.harness.worlds import FAULTS, Points, interleave, struck_worlds, tree

FIVE = "2013-01-01T05:00Z"
SIX = "2013-01-01T06:00Z"
SHELF = "quarantine-2013-01-01T05-00"


def ingestion_of(repo, policy):
    return repo.ingestion(gates=[no_bad_file], on_refusal=policy)


def path(hour, name="a"):
    return f"input/2013/01/01/{hour:02}:00/{name}"


LATER = {path(7): "7"}


def base(repo, policy):
    main = repo.branch("main")
    main.put("settled", b"0")
    main.commit("base")
    repo.protection.add("main")
    ingestion = ingestion_of(repo, policy)
    ingestion.branch.put(path(4), b"4")
    ingestion.tick("2013-01-01T04:00Z")
    return ingestion


def good(repo, policy):
    base(repo, policy).branch.put(path(5), b"5")


def bad(repo, policy):
    good(repo, policy)
    ingestion_of(repo, policy).branch.put(path(5, "x.bad"), b"x")


def waiting(repo, policy):
    """Commit a bad and a good hour, as by ticks that died after their commits."""
    bad(repo, policy)
    ingestion_of(repo, policy).branch.commit("by hand", metadata={"hour": FIVE})
    ingestion_of(repo, policy).branch.put(path(6), b"6")


def shelved(repo, policy):
    bad(repo, policy)
    ingestion_of(repo, policy).tick(FIVE)
    repo.branch(SHELF).put(path(5, "y"), b"mended")


def repaired(repo, policy):
    """Hold an hour, and delete its bad file again; the deletion is staged."""
    bad(repo, policy)
    ingestion_of(repo, policy).tick(FIVE)
    ingestion_of(repo, policy).branch.delete(path(5, "x.bad"))


def five_and_write(repo, policy):
    """Tick the same hour before a later write."""
    tick = five(repo, policy)
    ingestion_of(repo, policy).branch.put(path(9), b"9")
    return tick


def five(repo, policy):
    return ingestion_of(repo, policy).tick(FIVE)


def six(repo, policy):
    return ingestion_of(repo, policy).tick(SIX)


def released(repo, policy):
    return ingestion_of(repo, policy).release(SHELF, gates=[])


FOUR_AND_FIVE = {path(4): "4", path(5): "5"}
ALL_BAD = {**FOUR_AND_FIVE, path(5, "x.bad"): "x"}
OPERATIONS = {
    "publish": ("hold", good, five, FOUR_AND_FIVE),
    "repair": ("hold", repaired, five, FOUR_AND_FIVE),
    "hold": ("hold", bad, five, ALL_BAD),
    "quarantine": ("quarantine", bad, five, ALL_BAD),
    "quarantine-of-several": ("quarantine", waiting, six, {**ALL_BAD, path(6): "6"}),
    "release": ("quarantine", shelved, released, {**ALL_BAD, path(5, "y"): "mended"}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_call_made_again_loses_and_doubles_none(operation, fault):
    policy, prepare, operate, files = OPERATIONS[operation]
    outcomes = set()
    for world, what, _ in struck_worlds(
        fault, lambda repo: prepare(repo, policy), lambda repo: operate(repo, policy)
    ):
        repo = world.repo(scripted=False)
        ingestion = ingestion_of(repo, policy)
        missing = set(files) - set(whereabouts(repo, ingestion))
        assert not missing, (missing, what)

        committed = repo.commit("ingest").metadata.get("hour") == FIVE
        ingestion.branch.put(path(7), b"7")
        outcomes.add(outcome(operate(repo, policy)))
        check_accounts(repo, ingestion, {**files, **LATER}, what)
        assert no_leftovers(world, ingestion), what
        if committed and operation in ("publish", "quarantine"):  # a held hour takes all
            assert [change.path for change in ingestion.branch.uncommitted()] == [path(7)], what
    assert len(outcomes) == 1, outcomes


def outcome(answer):
    state = getattr(answer, "state", "released")
    return state, getattr(answer, "quarantined", ())


def no_leftovers(world, ingestion):
    """Return whether no intention and no unexpected branch is left."""
    names = {record.name for record in world.repo(scripted=False).branches(hidden=True)}
    shelves = {kept.name for kept in ingestion.quarantined()}
    return names == {"main", "ingest"} | shelves and ingestion._records.standing().taking is None


@pytest.mark.parametrize("operation", ["quarantine", "quarantine-of-several", "release"])
def test_a_dead_release_or_tick_is_finished_by_another_tick(operation):
    policy, prepare, operate, files = OPERATIONS[operation]
    for world, what, failed in struck_worlds(
        "dies", lambda repo: prepare(repo, policy), lambda repo: operate(repo, policy)
    ):
        repo = world.repo(scripted=False)
        ingestion = ingestion_of(repo, policy)
        ingestion.tick("2013-01-01T08:00Z")
        check_accounts(repo, ingestion, files, what)
        assert ingestion._records.standing().taking is None, what
        if operation == "release" and path(5) in tree(repo.ref("main")):
            assert ingestion.quarantined() == (), what
        assert failed is None or isinstance(failed, ProcessDied)


def elsewhere(act, *given):
    """Run `act` as another process, even if a gate judges in this one."""
    return Context().run(act, *given)


MEANWHILE = {
    "a-write": lambda repo, policy: ingestion_of(repo, policy).branch.put(path(9), b"9"),
    "the-same-tick": five,
    "the-next-tick": six,
    "a-commit-by-hand": lambda repo, policy: (
        ingestion_of(repo, policy).branch.put(path(9), b"9"),
        ingestion_of(repo, policy).branch.commit("by hand"),
    ),
    "a-run": lambda repo, policy: publish_a_run(repo),
}


def publish_a_run(repo):
    with repo.run("output") as run:
        run.put("output", b"1")


@pytest.mark.parametrize(
    ("operation", "meanwhile"),
    [
        *(("quarantine", meanwhile) for meanwhile in MEANWHILE),
        *(("publish", meanwhile) for meanwhile in ("a-write", "the-same-tick", "a-run")),
        *(("hold", "the-same-tick"), ("repair", "the-same-tick")),
        ("quarantine-of-several", "the-same-tick"),
    ],
)
def test_others_between_two_calls_of_a_tick_lose_or_double_none(operation, meanwhile):
    policy, prepare, operate, files = OPERATIONS[operation]
    expected = dict(files)
    if meanwhile in ("a-write", "a-commit-by-hand"):
        expected[path(9)] = "9"
    if meanwhile == "a-run":
        expected["output"] = "1"

    def check(world, answer, other):
        assert not isinstance(answer, GravelerError), answer
        assert not isinstance(other, GravelerError), other
        repo = world.repo(scripted=False)
        ingestion = ingestion_of(repo, policy)
        check_accounts(repo, ingestion, expected)
        if meanwhile == "the-same-tick" and operate is five:
            assert (answer.state, answer.quarantined) == (other.state, other.quarantined)
            assert answer.published == other.published
        ingestion.tick("2013-01-01T10:00Z")
        check_accounts(repo, ingestion, expected)
        assert no_leftovers(world, ingestion)

    interleave(
        lambda repo: prepare(repo, policy),
        lambda repo: operate(repo, policy),
        lambda repo: elsewhere(MEANWHILE[meanwhile], repo, policy),
        check,
    )


def test_two_ticks_of_a_repaired_hour_return_the_same():
    """A write comes between them, and one call of 200 decides."""

    def check(world, tick, other):
        assert tick.state is HourState.PUBLISHED
        repo = world.repo(scripted=False)
        again = five(repo, "hold")
        for answer in (other, again):
            assert (answer.state, answer.commit) == (tick.state, tick.commit)
            assert answer.published == tick.published
        six(repo, "hold")
        check_accounts(repo, ingestion_of(repo, "hold"), {**FOUR_AND_FIVE, path(9): "9"})

    interleave(
        lambda repo: repaired(repo, "hold"),
        lambda repo: five(repo, "hold"),
        lambda repo: elsewhere(five_and_write, repo, "hold"),
        check,
        step=min(Points.step, 2),
    )


RELEASING = {
    "a-mend": lambda repo: repo.branch(SHELF).put(path(5, "z"), b"at the last moment"),
    "the-same-release": lambda repo: released(repo, "quarantine"),
    "a-tick": lambda repo: six(repo, "quarantine"),
}


@pytest.mark.parametrize("meanwhile", RELEASING)
def test_others_between_two_calls_of_a_release_lose_nothing(meanwhile):
    mend = {path(5, "z"): "at the last moment"} if meanwhile == "a-mend" else {}

    def check(world, answer, other):
        assert not isinstance(answer, GravelerError), answer
        assert meanwhile == "a-mend" or not isinstance(other, GravelerError), other
        repo = world.repo(scripted=False)
        ingestion = ingestion_of(repo, "quarantine")
        kept = {path(5, "y"): "mended", **({} if isinstance(other, GravelerError) else mend)}
        check_accounts(repo, ingestion, {**ALL_BAD, **kept})
        assert {path(5), *kept} <= set(tree(repo.ref("main")))
        assert no_leftovers(world, ingestion)

    interleave(
        lambda repo: shelved(repo, "quarantine"),
        lambda repo: released(repo, "quarantine"),
        lambda repo: elsewhere(RELEASING[meanwhile], repo),
        check,
    )


def careless(repo, policy):
    """Tick without gates."""
    return repo.ingestion(on_refusal=policy).tick(FIVE)


@pytest.mark.parametrize(("operate", "meanwhile"), [(five, careless), (careless, five)])
def test_disagreeing_ticks_publish_an_hour_or_set_it_aside(operate, meanwhile):
    states = set()

    def check(world, answer, other):
        assert not isinstance(answer, GravelerError), answer
        assert not isinstance(other, GravelerError), other
        repo = world.repo(scripted=False)
        ingestion = ingestion_of(repo, "quarantine")
        check_accounts(repo, ingestion, ALL_BAD)
        hour = ingestion.hour(FIVE)
        states.add(hour.state)
        careless(repo, "quarantine")
        check_accounts(repo, ingestion, ALL_BAD)
        assert ingestion.hour(FIVE) == hour
        assert no_leftovers(world, ingestion)

    interleave(
        lambda repo: bad(repo, "quarantine"),
        lambda repo: operate(repo, "quarantine"),
        lambda repo: elsewhere(meanwhile, repo, "quarantine"),
        check,
        step=8,  # at least 11 calls in a row lead to each end
    )
    assert states == {HourState.PUBLISHED, HourState.QUARANTINED}


def test_nobody_publishes_what_somebody_has_decided_to_set_aside(monkeypatch):
    """The process died before its tick was done. The next one does it, or finds it published."""

    def decide_and_die(repo):
        with monkeypatch.context() as patched:
            patched.setattr(Quarantines, "_remove_changes", lambda *_: dies("take off"))
            five(repo, "quarantine")

    def check(world, answer, other):
        assert not isinstance(answer, GravelerError), answer
        repo = world.repo(scripted=False)
        ingestion = ingestion_of(repo, "quarantine")
        ingestion.tick(SIX)
        check_accounts(repo, ingestion, ALL_BAD)
        assert no_leftovers(world, ingestion)

    def meanwhile(repo):
        try:
            elsewhere(decide_and_die, repo)
        except ProcessDied:
            states.append("decided")

    states: list[str] = []
    interleave(
        lambda repo: bad(repo, "quarantine"),
        lambda repo: careless(repo, "quarantine"),
        meanwhile,
        check,
    )
    assert len(states) > 10 // Points.step
