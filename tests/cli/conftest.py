import pytest

import graveler
from tests.harness.commands import Said, cli  # noqa: F401 - a fixture


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a lake with one repository. The command line runs in it."""
    folder = tmp_path / "lake"
    with graveler.open(folder, create=True) as lake:
        lake.create_repository("flights")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GRAVELER_LAKE", raising=False)
    monkeypatch.delenv("GRAVELER_REPO", raising=False)
    return folder


@pytest.fixture
def lake(folder):
    """The same lake, open."""
    with graveler.open(folder) as lake:
        yield lake


@pytest.fixture
def repo(lake):
    """The repository of the same lake."""
    return lake.repository("flights")


@pytest.fixture
def history(repo):
    """Two commits on main, a branch that is ahead, and a tag."""
    main = repo.branch("main")
    main.put("input/05:00/a.csv", b"a\n1\n", content_type="text/csv", metadata={"source": "bts"})
    main.put("readme.txt", b"hello")
    main.commit("first", committer="ann", metadata={"hour": "05"})
    repo.create_branch("dev")
    repo.branch("dev").put("input/06:00/b.csv", b"b\n")
    repo.branch("dev").commit("more")
    repo.tags.create("v1")
    return repo


@pytest.fixture
def conflict(history):
    """dev and main, which have changed one path in different ways."""
    for name, body in (("dev", b"1"), ("main", b"2")):
        history.branch(name).put("readme.txt", body)
        history.branch(name).commit(f"{name} changes it")
    return history


@pytest.fixture
def runs(history):
    """A run that is published, and a run that a gate stopped."""
    with history.run("hour 05", gates=[lambda candidate: None]) as run:
        run.put("output/05:00/a", b"1")

    @graveler.gate("rows")
    def refuse(candidate):
        return "0 rows, 9 landed"

    def stopped():
        with history.run("hour 06", gates=[refuse], metadata={"hour": "06"}) as run:
            run.put("output/06:00/a", b"2")

    with pytest.raises(graveler.errors.GateFailedError):
        stopped()
    return history


@pytest.fixture
def terminal(monkeypatch):
    """A person reads the output, on a terminal of 80 columns without colours."""
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
