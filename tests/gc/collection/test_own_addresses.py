"""A file in the repository's own storage has one address, so that collection finds every link."""

from datetime import timedelta

import pytest

import graveler
from graveler.committed.references import own_addresses
from graveler.errors import CorruptionError, InvalidInputError
from graveler.gc.marks import Kind
from graveler.model import Entry
from graveler.values import encode_entry, encode_value
from tests.harness.gc_lakes import made_key

NOW = timedelta(0)
KEY = "data/0a/part-0"


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("flights")
        repo.links.allow(str(tmp_path))
        repo.stores.objects.put(KEY, b"bytes")
        repo.stores.objects.put(made_key(repo), b"garbage")
        yield repo


def folder(repo):
    return repo.storage.removeprefix("file://")


def by_a_link(repo, tmp_path):
    (tmp_path / "mount").symlink_to(folder(repo))
    return f"file://{tmp_path}/mount/{KEY}"


def by_a_link_to_the_file(repo, tmp_path):
    (tmp_path / "alias").symlink_to(f"{folder(repo)}/{KEY}")
    return f"file://{tmp_path}/alias"


SPELLINGS = {
    "key": lambda repo, _: KEY,
    "full": lambda repo, _: f"file://{folder(repo)}/{KEY}",
    "plain path": lambda repo, _: f"{folder(repo)}/{KEY}",
    "one slash": lambda repo, _: f"file:{folder(repo)}/{KEY}",
    "localhost": lambda repo, _: f"file://localhost{folder(repo)}/{KEY}",
    "upper case": lambda repo, _: f"FILE://{folder(repo)}/{KEY}",
    "two slashes before": lambda repo, _: f"file://{folder(repo)}//{KEY}",
    "two slashes within": lambda repo, _: f"file://{folder(repo)}/data//0a/part-0",
    "two slashes behind": lambda repo, _: f"file://{folder(repo)}/data/0a//part-0",
    "dot": lambda repo, _: f"file://{folder(repo)}/./data/./0a/part-0",
    "up and down": lambda repo, _: f"file://{folder(repo)}/data/0a/../0a/part-0",
    "symbolic link": by_a_link,
    "symbolic link to the file": by_a_link_to_the_file,
}


def collect(repo):
    (mark,) = repo.gc.run(grace=NOW, window=NOW)
    return mark.freed[Kind.DATA].count


def test_a_link_to_an_own_file_keeps_it_however_it_is_spelled(repo, tmp_path):
    main = repo.branch("main")
    for spelling, spell in SPELLINGS.items():
        address = spell(repo, tmp_path)
        assert main.link(f"one {spelling}", address=address).address == KEY
        main.link_many([Entry(f"many {spelling}", address, 5)])
    main.commit("link")
    assert collect(repo) == 1
    assert {entry.address for entry in main.entries()} == {KEY}
    assert main.get("many dot") == b"bytes"
    assert set(main.uris("")) == {f"{repo.storage}/{KEY}"}


def test_of_a_percent_sign_the_file_that_is_there_decides(repo, tmp_path):
    plain, escaped = tmp_path / "out" / "a b", tmp_path / "out" / "a%20b"
    plain.parent.mkdir()
    plain.write_bytes(b"plain")
    main = repo.branch("main")
    assert main.link("one", address=plain.as_uri()).address == f"file://{plain}"
    escaped.write_bytes(b"escaped")
    assert main.link("two", address=plain.as_uri()).address == f"file://{escaped}"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("file:out/raw.csv", "no absolute path"),
        ("file://out/raw.csv", "names a host"),
        ("file:///etc/", "names no file"),
        ("file:///etc/..", "names no file"),
        ("/etc/..", "names no file"),
        ("s3://bucket", "names no file"),
        ("s3://bucket/a/", "names no file"),
        ("file:///a\0b", "NUL"),
        ("file:///\udc80", "UTF-8"),
        ("_graveler/x", "neither"),
        ("other/x", "neither"),
        ("../x", "neither"),
        ("", "not empty"),
    ],
)
def test_what_is_no_address_is_refused(repo, address, reason):
    with pytest.raises(InvalidInputError, match=reason):
        repo.branch("main").link_many([Entry("a", address, 1)])


def test_a_link_into_another_repositorys_storage_is_refused(repo, tmp_path):
    with graveler.open(repo.stores.location) as lake:
        other = lake.create_repository("weather")
        entry = other.branch("main").put("a", b"1")
    (tmp_path / "mount").symlink_to(folder(other))
    for address in (other.stores.uri(entry.address), f"file:{tmp_path}/mount/{entry.address}"):
        with pytest.raises(InvalidInputError, match=r"storage of repository 'weather'.* copy"):
            repo.branch("main").link("b", address=address)
    assert not repo.branch("main").exists("b")


@pytest.mark.parametrize(
    ("address", "keys"),
    [
        ("data/1/part-0.parquet", {"data/1/part-0.parquet"}),
        ('data/quoted "x".csv', {'data/quoted "x".csv'}),
        ("data/tab\tx", {"data/tab\tx"}),
        ("data/\u00e9\U0001f980", {"data/\u00e9\U0001f980"}),
        ("data/", {"data/"}),
        ("elsewhere/x", {"elsewhere/x"}),
        ("file:///lake/objects/data/a b", set()),
        ("s3://bucket/data/x", set()),
    ],
)
def test_the_keys_that_an_address_names(address, keys):
    value = encode_entry(Entry("p", address, 1, metadata={"x": 'data/"'}))[1]
    assert {key.decode() for key in own_addresses(b"p", value)} == keys


def test_an_entry_that_makes_no_sense_is_damage():
    with pytest.raises(CorruptionError):
        own_addresses(b"p", encode_value(b"i" * 32, b"[1]"))
