"""A publish packs its target if the rule says so and it is cheap. A failed pack does no harm."""

import threading

import pytest

import graveler
from graveler.committed.splitting import Splitting
from graveler.errors import BackendUnavailableError
from graveler.repository.commits import packing
from graveler.repository.commits.packing import PACK_PAIR


@pytest.fixture
def repo(lake):
    """A repository whose main has as many badly cut ranges as its rule names."""
    made = lake.create_repository(
        "flights", splitting=Splitting(min_bytes=800, max_bytes=4_000, raggedness=2, hard=8)
    )
    main = made.branch("main")
    for hour in range(24):
        for part in range(3):
            main.put(f"in/{hour:02d}/{part}", str(hour).encode())
        main.commit(f"hour {hour}")
    for hour in range(0, 24, 2):
        main.delete(f"in/{hour:02d}/1")
    main.commit("deleted")
    made.protection.add("main")
    made.packing.set(after=made.stats().badly_cut)
    return made


@pytest.fixture
def cheap(monkeypatch):
    """Make all of main cheap to pack."""
    monkeypatch.setattr(packing, "CHEAP_SIZES", 100)


def publish(repo, key="hour", **terms):
    with repo.run(key, **terms) as run:
        run.put(f"out/{key}", b"1")
    return run.result.commit


def packs(repo, branch="main"):
    return [commit for commit in repo.log(branch) if PACK_PAIR in commit.metadata]


@pytest.mark.usefixtures("cheap")
def test_a_publish_over_the_rule_packs_after_it_has_landed(repo, tree):
    before = tree(repo.ref("main"))
    published = publish(repo)
    head = repo.commit("main")
    assert PACK_PAIR in head.metadata
    assert head.parents == (published.id,)
    assert tree(repo.ref("main")) == {**before, "out/hour": "1"}
    assert repo.stats().badly_cut == 0
    repo.packing.set(after=10)
    last = publish(repo, "next")
    assert repo.commit("main") == last


@pytest.mark.usefixtures("cheap")
def test_a_packed_publish_can_be_rolled_back(repo):
    published = publish(repo)
    (record,) = repo.runs.on_targets(repo.runs.list())
    assert (record.state, record.commit) == ("PUBLISHED", published.id)
    assert record.published.commit == published.id
    assert repo.why("out/hour").commit.id == published.id
    assert repo.runs.rollback("hour").commit == repo.commit("main")
    assert not repo.ref("main").exists("out/hour")


@pytest.mark.usefixtures("cheap")
def test_gates_are_not_asked_about_a_pack(repo):
    seen = []

    def gate(candidate):
        seen.append(len(list(candidate.changes())))

    publish(repo, gates=[graveler.gate(gate)])
    assert len(packs(repo)) == 1
    assert seen == [1]


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize(
    "rule", [{"after": 0}, {"after": 200}, {"branches": ["release-*"]}], ids=str
)
def test_a_publish_outside_the_rule_packs_nothing(repo, rule):
    repo.packing.set(**rule)
    published = publish(repo)
    assert repo.commit("main") == published


@pytest.mark.parametrize("bound", ["CHEAP_RANGES", "CHEAP_SIZES"])
def test_what_is_not_cheap_is_left_to_maintenance(repo, monkeypatch, bound):
    monkeypatch.setattr(packing, "CHEAP_SIZES", 100)
    monkeypatch.setattr(packing, bound, 0)
    published = publish(repo)
    assert repo.commit("main") == published
    repo.maintain().check()
    assert len(packs(repo)) == 1


@pytest.mark.usefixtures("cheap")
def test_a_pack_that_fails_does_not_fail_the_publish(repo, monkeypatch, caplog):
    def broken(*_, **__):
        raise BackendUnavailableError("the storage does not answer")

    monkeypatch.setattr(packing, "pack", broken)
    published = publish(repo)
    assert repo.commit("main") == published
    assert "branch main was not packed: the storage does not answer" in caplog.text


@pytest.mark.usefixtures("cheap")
def test_a_tick_of_an_ingestion_packs_its_target(repo):
    ingestion = repo.ingestion()
    ingestion.branch.put("landed/a", b"1")
    tick = ingestion.tick()
    assert repo.commit("main").parents == (tick.published.id,)
    assert len(packs(repo)) == 1
    ingestion.branch.put("landed/b", b"1")
    assert ingestion.tick().published is not None


@pytest.mark.usefixtures("cheap")
def test_publishers_beside_a_packer_lose_nothing(repo):
    errors = []

    def work(name):
        try:
            for number in range(5):
                publish(repo, f"{name}-{number}")
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)

    publishers = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for publisher in publishers:
        publisher.start()
    while any(publisher.is_alive() for publisher in publishers):
        repo.pack(everything=True)
    for publisher in publishers:
        publisher.join()
    assert errors == []
    paths = {entry.path for entry in repo.ref("main").entries()}
    assert {f"out/{name}-{number}" for name in ("a", "b") for number in range(5)} <= paths
    assert len(paths) == 24 * 3 - 12 + 10
    assert {record.state for record in repo.runs.list()} == {"PUBLISHED"}
