"""A local path may begin with ``~``, which means the home folder, as in a shell."""

from pathlib import Path

import pytest

import graveler
from graveler.config import load_config
from graveler.reads.local.export import destination


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home folder. The working folder is another one, and stays empty."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    yield tmp_path / "home"
    assert list(work.iterdir()) == []


@pytest.fixture
def repo(home):
    with graveler.init("~/lake") as lake:
        repo = lake.create_repository("tables", storage="~/objects")
        main = repo.branch("main")
        main.put("in/a", b"a")
        main.commit("a file")
        yield repo


def test_local_paths_are_below_the_home_folder(home, repo):
    assert repo.stores.location == str(home / "lake")
    assert repo.storage == f"file://{home}/objects"
    with graveler.open(Path("~/lake")) as lake:
        assert list(lake.repositories()) == ["tables"]
    main = repo.branch("main")
    for kind in (str, Path):
        assert repo.ref("main").download("in", kind("~/out"), delete=True).files <= 1
        assert (home / "out" / "a").read_bytes() == b"a"
        assert main.upload(kind("~/out"), f"back/{kind.__name__}").files == 1
        repo.links.allow("~/out")
        assert main.import_(kind("~/out"), f"linked/{kind.__name__}/").files == 1
        assert repo.links.disallow("~/out") == f"file://{home}/out"
    body = Path("~/out/a")
    main.put("one", body)
    assert main.put_many({"two": body}).files == 1
    main.link_many([main.store("three", body)])
    assert [main.get(path) for path in ("one", "two", "three")] == [b"a", b"a", b"a"]
    assert destination(repo.stores, "~/exported").root == f"file://{home}/exported"
    repo.dump_refs("~/refs.dump")
    assert (home / "refs.dump").is_file()
    assert repo.restore_refs("~/refs.dump").branches
    file = home / "lake" / "graveler.toml"
    file.write_text(f'{file.read_text()}\n[cache]\nfolder = "~/ranges"\n')
    assert load_config("~/lake").cache_folder == home / "ranges"


def test_a_name_that_no_user_has_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with graveler.open("~no-such-user", create=True) as lake:
        assert lake.location == f"{tmp_path}/~no-such-user"
