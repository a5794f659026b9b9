"""``open`` opens a lake, ``init`` makes one, and a URI is never a folder."""

import pytest

import graveler
from graveler.errors import InvalidInputError, NotFoundError
from graveler.lake.shared import location_of

URIS = ("s3:/bucket/lake", "postgresql://ann:s3cret@db/lake", "file:///lake")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_open_makes_nothing_of_a_typo(here):
    with pytest.raises(NotFoundError, match="graveler init"):
        graveler.open("lakee")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize(
    "call",
    [graveler.open, lambda uri: graveler.open(uri, create=True), graveler.init, location_of],
    ids=["open", "create", "init", "fs"],
)
def test_a_uri_is_refused_with_the_way_out(here, call, uri):
    with pytest.raises(InvalidInputError, match=r"graveler\.toml") as error:
        call(uri)
    assert "s3cret" not in str(error.value)
    assert uri.partition(":")[0] in str(error.value)
    assert list(here.iterdir()) == []


def test_settings_may_name_one_store_alone(here):
    (here / "lake").mkdir()
    (here / "lake" / "graveler.toml").write_text('format = 1\n[kv]\nuri = "sqlite://refs"\n')
    with graveler.open("lake") as lake:
        lake.create_repository("flights").branch("main").put("a", b"1")
    assert (here / "lake" / "refs").is_file()
    assert (here / "lake" / "objects" / "flights").is_dir()
