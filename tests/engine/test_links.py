"""External locations must be allowed before files in them are linked or read."""

from contextlib import suppress
from pathlib import Path

import pytest

import graveler
from graveler.config import load_config
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
)
from graveler.model import Entry
from graveler.objects.s3 import S3Store

PASSWD = "file:///etc/passwd"


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights")


@pytest.fixture
def landing(tmp_path):
    folder = tmp_path / "landing" / "05"
    folder.mkdir(parents=True)
    (folder / "raw.csv").write_bytes(b"raw")
    return folder.parent


def test_an_undeclared_place_is_neither_linked_nor_read(repo):
    main = repo.branch("main")
    size = Path("/etc/passwd").stat().st_size
    for link in (
        lambda: main.link("a", address=PASSWD),
        lambda: main.link_many([Entry("a", PASSWD, size)]),
        lambda: main.link("a", address="/etc/passwd"),
        lambda: main.commit_changes([Entry("a", PASSWD, size)], message="m"),
        lambda: main.link("a", address="s3://another/bucket/x", size=1),
    ):
        with pytest.raises(PermissionDeniedError, match=r"repository.links.allow\(") as refused:
            link()
        assert "graveler links allow" in str(refused.value)
    assert list(main.uncommitted()) == []


def test_everything_below_a_declared_place_is_linked_and_read(repo, landing):
    assert repo.links.allow(str(landing)) == f"file://{landing}"
    assert repo.links.allow(f"file:{landing}/") == f"file://{landing}"
    assert repo.links.list() == [f"file://{landing}"]
    main = repo.branch("main")
    main.link("raw", address=f"file://{landing}/05/raw.csv")
    assert main.get("raw") == b"raw"


def test_a_place_covers_what_is_below_it_not_similar_names(repo, landing):
    (landing.parent / "landing-2").mkdir()
    (landing.parent / "landing-2" / "x").write_bytes(b"x")
    (landing / "out").symlink_to("/etc/passwd")
    repo.links.allow(str(landing))
    for address, said in {
        f"{landing.parent}/landing-2/x": f"declared: file://{landing}\\)",
        f"{landing}/../landing-2/x": None,
        f"{landing}/out": "/etc/passwd",
    }.items():
        with pytest.raises(PermissionDeniedError, match=said):
            repo.branch("main").link("x", address=f"file://{address}")


def test_linked_files_of_an_undeclared_place_are_unreadable(repo, landing):
    repo.links.allow(str(landing))
    main = repo.branch("main")
    main.link("raw", address=f"file://{landing}/05/raw.csv")
    main.commit("linked")
    repo.links.disallow(str(landing))
    repo.links.disallow(str(landing))
    for read in (
        lambda: main.get("raw"),
        lambda: main.open("raw"),
        lambda: repo.ref("main").get("raw"),
    ):
        with pytest.raises(PermissionDeniedError, match="links allow"):
            read()
    assert main.stat("raw").size == 3
    repo.links.allow(str(landing))
    assert main.get("raw") == b"raw"


@pytest.mark.parametrize("place", ["", "landing", "s3://", "s4://x/y", "file://host/x", "own"])
def test_what_is_no_place_is_refused(repo, place):
    with pytest.raises(InvalidInputError, match="own storage" if place == "own" else None):
        repo.links.allow(f"{repo.storage}/data" if place == "own" else place)
    assert repo.links.list() == []


def test_a_place_has_settings_of_its_own_where_the_file_says_so(tmp_path):
    (tmp_path / "graveler.toml").write_text(
        """
        format = 1
        [s3]
        endpoint_url = "http://own"
        [links."s3a://landing/raw/"]
        endpoint_url = "http://foreign"
        secret_key = "${FOREIGN_KEY}"
        [links."s3://landing/raw/deep"]
        region = "eu-central-1"
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREIGN_KEY", "hidden")
        config = load_config(tmp_path)
    foreign = {"endpoint_url": "http://foreign", "secret_key": "hidden"}
    assert config.options_of("s3://landing/raw") == foreign
    assert config.options_of("s3n://landing/raw/x") == foreign
    assert config.options_of("s3://landing/raw/deep/x") == {"region": "eu-central-1"}
    assert config.options_of("s3://landing/rawer") == {"endpoint_url": "http://own"}
    assert config.options_of("file:///landing/raw") == {}
    assert "hidden" not in repr(config)


@pytest.mark.parametrize(
    "text",
    ["links = 1", '[links]\n"s3://b" = 1', '[links."/folder"]', '[links."s3://b"]\nuser = "x"'],
)
def test_settings_of_places_that_make_no_sense_are_refused(tmp_path, text):
    (tmp_path / "graveler.toml").write_text(f"format = 1\n{text}\n")
    with pytest.raises(InvalidInputError, match="links"):
        load_config(tmp_path)


def test_links_to_a_bucket_take_few_requests(
    tmp_path, s3_bucket, s3_client, s3_settings, monkeypatch
):
    """60 objects fill their prefix: this takes a page, and no request for a single object."""
    keys = [f"links/{number // 12}/{number}" for number in range(60)]
    for key in keys:
        s3_client.put_object(Bucket=s3_bucket, Key=key, Body=b"x")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "graveler.toml").write_text(
        f'format = 1\n[links."s3://{s3_bucket}/links"]\n{s3_settings}'
    )
    with graveler.open(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        repo.links.allow(f"s3a://{s3_bucket}/links")
        (store, _) = repo.stores.locate(f"s3://{s3_bucket}/links/x")
        assert isinstance(store, S3Store)
        calls, call = [], store._call

        def counted(*given, **named):
            calls.append(given[2])
            return call(*given, **named)

        monkeypatch.setattr(store, "_call", counted)
        main = repo.branch("main")
        main.link_many(Entry(key[6:], f"s3n://{s3_bucket}/{key}", 1) for key in keys)
        assert calls == ["list_objects_v2"]
        entry = main.stat("0/5")
        assert entry.address == f"s3://{s3_bucket}/links/0/5"
        assert entry.version.startswith('etag:"')
        with pytest.raises(ObjectNotFoundError, match=r"'gone'.*links/gone"):
            main.link("gone", address=f"s3://{s3_bucket}/links/gone")


def test_main_never_comes_to_name_what_is_not_there(repo, landing):
    """Every kind of link checks the object, so no run can publish a path without its object."""
    repo.links.allow(str(landing))
    checksum = "xxh64:" + "0" * 16
    links = (
        lambda run, entry: run.link_many([entry]),
        lambda run, entry: run.link("x", address=entry.address, size=1, checksum=checksum),
        lambda run, entry: run.commit_changes([entry], message="m"),
        lambda run, entry: run.step("s").link_many([entry]),
    )
    for address in ("data/missing", f"file://{landing}/no"):
        for number, link in enumerate(links):
            run = repo.runs.open(f"{address} {number}")
            with pytest.raises(ObjectNotFoundError):
                link(run, Entry("x", address, 1))
            with suppress(GravelerError):
                run.publish()
    assert list(repo.ref("main").entries()) == []


def test_a_place_may_be_very_deep(repo, tmp_path):
    place = f"{tmp_path}/in" + "/d" * 1_200
    assert repo.links.allow(place) == f"file://{place}"
    with pytest.raises(ObjectNotFoundError):
        repo.branch("main").link("raw.csv", address=f"{place}/raw.csv")
