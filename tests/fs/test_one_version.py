"""An operation that reads many files of a branch reads them from one version."""

from itertools import count

import pytest

NAMES = [f"table/day={day}/{part}.csv" for day in range(4) for part in range(3)]


@pytest.fixture
def publish(repo):
    """Publishes the next version of a table. All files contain it, and some are named by it."""
    versions = count()

    def next_version(*_):
        version = next(versions)
        branch = repo.create_branch(f"dev{version}")
        branch.delete_many(f"table/day={day}/v{version - 1}.csv" for day in range(4))
        for name in (*NAMES, *(f"table/day={day}/v{version}.csv" for day in range(4))):
            branch.put(name, str(version).encode())
        branch.commit(f"version {version}")
        repo.merge(branch.name, into="main")

    next_version()
    return next_version


def before_each(monkeypatch, grav, method, work):
    """Run `work` before each call of a method of the filesystem except the first."""
    original, calls = getattr(grav, method), count()

    def call(*given, **named):
        if next(calls):
            work()
        return original(*given, **named)

    monkeypatch.setattr(grav, method, call)
    return calls


LOOKS = {
    "glob": lambda grav: grav.glob("flights/main/table/*/v*.csv"),
    "glob of a folder": lambda grav: grav.glob("flights/main/table/day=*/*"),
    "glob below": lambda grav: grav.glob("flights/main/**/*.csv"),
    "find": lambda grav: grav.find("flights/main/table"),
    "find so deep": lambda grav: grav.find("flights/main", maxdepth=3),
    "sizes": lambda grav: grav.du("flights/main", maxdepth=3, total=False),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_search_in_many_folders_shows_one_version(grav, monkeypatch, publish, look):
    calls = before_each(monkeypatch, grav, "ls", publish)
    found = LOOKS[look](grav)
    versions = {path.rpartition("/")[2] for path in found if "/v" in path}
    assert versions == {"v0.csv"}
    assert len([path for path in found if "/v" in path]) == 4
    if look not in {"find", "glob below"}:
        assert next(calls) > 1


@pytest.mark.parametrize("source", ["flights/main/table", "flights/main/table/day=*/?.csv"])
def test_files_got_together_are_those_of_one_listing(grav, monkeypatch, publish, tmp_path, source):
    before_each(monkeypatch, grav, "get_file", publish)
    grav.get(source, str(tmp_path / "got") + "/", recursive="*" not in source)
    got = [path.read_bytes() for path in (tmp_path / "got").rglob("*.csv")]
    assert set(got) == {b"0"}


@pytest.mark.parametrize("source", ["flights/main/table", "flights/main/table/day=*/?.csv"])
def test_files_read_together_are_those_of_one_listing(grav, monkeypatch, publish, source):
    before_each(monkeypatch, grav, "cat_file", publish)
    files = grav.cat(source, recursive="*" not in source)
    assert set(files.values()) == {b"0"}
    assert len(files) in {len(NAMES), len(NAMES) + 4}


def test_nothing_is_remembered_afterwards(grav, publish, tmp_path):
    grav.get("flights/main/table", str(tmp_path / "got"), recursive=True)
    assert grav.glob("flights/main/table/*/v*.csv")[0].endswith("v0.csv")
    publish()
    assert grav.cat("flights/main/table/day=0/0.csv") == b"1"
    assert grav.glob("flights/main/table/*/v*.csv")[0].endswith("v1.csv")
