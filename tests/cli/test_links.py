"""``links allow``, ``disallow`` and ``list``."""

import pytest

import graveler
from graveler.errors import PermissionDeniedError


def test_a_place_is_declared_listed_and_taken_away(cli, folder, tmp_path):
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "raw.csv").write_bytes(b"raw")
    place = f"file://{landing}"
    assert cli("links", "list").out == ""
    assert cli("links", "allow", f"{landing}/").out == f"allowed links to {place}\n"
    assert cli("links", "allow", "s3a://bucket/p", "--json").json == {"allowed": "s3://bucket/p"}
    assert cli("links", "list").out == f"{place}\ns3://bucket/p\n"
    with graveler.open(folder) as lake:
        main = lake.repository("flights").branch("main")
        main.link("raw", address=f"{place}/raw.csv")
        assert main.get("raw") == b"raw"
        disallowed = cli("links", "disallow", place, "--json")
        assert disallowed.json == {"disallowed": place}
        with pytest.raises(PermissionDeniedError, match=f"graveler links allow {place}"):
            main.get("raw")
    assert cli("links", "list", "--json").json == {"place": "s3://bucket/p"}


def test_a_place_may_be_relative_and_the_advice_declares_it(cli, folder, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "raw.csv").write_bytes(b"raw")
    with graveler.open(folder) as lake:
        main = lake.repository("flights").branch("main")
        with pytest.raises(PermissionDeniedError) as refused:
            main.link("raw", address=f"file://{tmp_path}/data/raw.csv")
        advised = str(refused.value).partition("`graveler ")[2].partition("`")[0]
        said = cli(*advised.split())
        assert said.out == f"allowed links to file://{tmp_path}/data\n"
        assert cli("links", "disallow", "../data").code == 0
        assert cli("links", "allow", "../data").out == said.out
        main.link("raw", address=f"file://{tmp_path}/data/raw.csv")
