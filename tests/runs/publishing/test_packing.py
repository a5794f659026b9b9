"""A publish packs its target if the rule says so and it is cheap. A failed pack does no harm."""

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


def publish(repo, key="hour"):
    with repo.run(key) as run:
        run.put(f"out/{key}", b"1")
    return run.result.commit


def packs(repo, branch="main"):
    return [commit for commit in repo.log(branch) if PACK_PAIR in commit.metadata]


@pytest.mark.usefixtures("cheap")
def test_a_publish_over_the_rule_packs_after_it_has_landed(repo, tree):
    before, seen = tree(repo.ref("main")), []
    gate = graveler.gate(lambda candidate: seen.append(len(list(candidate.changes()))))
    with repo.run("hour", gates=[gate]) as run:
        run.put("out/hour", b"1")
    published, head = run.result.commit, repo.commit("main")
    assert seen == [1]  # not asked about the pack
    assert PACK_PAIR in head.metadata
    assert head.parents == (published.id,)
    assert tree(repo.ref("main")) == {**before, "out/hour": "1"}
    assert repo.stats().badly_cut == 0
    repo.packing.set(after=10)
    last = publish(repo, "next")
    assert repo.commit("main") == last
    record = {one.key: one for one in repo.runs.on_targets(repo.runs.list())}["hour"]
    assert (record.state, record.commit) == ("PUBLISHED", published.id)
    assert record.published.commit == published.id
    assert repo.why("out/hour").commit.id == published.id
    repo.runs.rollback("hour")
    assert not repo.ref("main").exists("out/hour")


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
