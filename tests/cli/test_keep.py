"""``graveler keep``: collections, blocks that come back, and what a server advises."""

import pytest

from graveler.keep.files import BlockWriter
from graveler.server.keep.service import KeepServer
from tests.harness.certificates import of_localhost


@pytest.fixture
def server(cli, lake, folder, monkeypatch):
    """The one server of a system ``main``, whose blocks have one copy."""
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    cli("keep", "create", "main", "--replicas", "1")
    server = KeepServer(lake, "main", [folder / "disk"])
    cli("keep", "servers", "add", "main", server.address)
    yield server
    server.cut()


@pytest.fixture
def keep(cli, server):
    """A function that calls ``graveler keep``."""
    return lambda *words, **options: cli("keep", *words, **options)


@pytest.fixture
def files(tmp_path):
    """A file ``flights.csv``, and a folder with two files."""
    (tmp_path / "flights.csv").write_bytes(b"carrier,flights\nUA,12\n")
    (tmp_path / "raw" / "more").mkdir(parents=True)
    (tmp_path / "raw" / "a").write_bytes(b"1")
    (tmp_path / "raw" / "more" / "flights.csv").write_bytes(b"2")
    return tmp_path


def collection(keep, *words):
    said = keep("collection", *words, "--json")
    assert said.code == 0, said.err
    return said.lines


def test_files_become_a_collection_and_come_back(keep, files):
    put = ("put", "main", files / "flights.csv", files / "raw", "--name", "ann/hour 05")
    [made] = collection(keep, *put)
    assert (made["owner"], made["name"], made["version"]) == ("ann", "hour 05", 1)
    for given in (made["uuid"], "ann/hour 05"):
        for path, content in {"flights.csv": b"carrier,flights\nUA,12\n", "raw/a": b"1"}.items():
            assert keep("collection", "get", "main", given, path).raw == content
    [shown] = collection(keep, "show", "main", "ann/hour 05")
    assert shown["manifest"].count("\n") == 3
    assert "raw/nothing" in keep("collection", "get", "main", made["uuid"], "raw/nothing").err
    twice = keep("collection", "put", "main", files / "flights.csv", files / "raw/more/flights.csv")
    assert "are both 'flights.csv'" in twice.err


def test_a_manifest_becomes_a_collection_if_its_blocks_are_there(keep, files):
    [foo] = (keep("put", "main", files / "flights.csv").out.split(),)
    manifest = files / "manifest"
    manifest.write_text(f". {foo[0]} 0:22:flights.csv\n")
    [made] = collection(keep, "create", "main", manifest, "--persist", "--replicas", "3")
    assert (made["ends"], made["replicas"]) == (None, 3)
    text = keep("collection", "show", "main", made["uuid"]).out
    assert text.endswith("+22 0:22:flights.csv\n")
    manifest.write_text(f". {'0' * 32}+3 0:3:x\n")
    assert "no server has block 0000" in keep("collection", "create", "main", manifest).err


@pytest.mark.parametrize("into", [False, True])
def test_files_whose_blocks_went_meanwhile_are_no_collection(
    keep, files, server, monkeypatch, into
):
    put = ("collection", "put", "main", files / "flights.csv")
    words = ("--into", keep(*put, "--json").lines[0]["uuid"]) if into else ()
    write = BlockWriter.write

    def slow(self, named):
        yield from write(self, named)
        [volume] = server.store.volumes.values()
        for stored in list(volume.index()):
            volume.trash(stored.digest, 0, 3600)

    monkeypatch.setattr(BlockWriter, "write", slow)
    assert "no server has block" in keep(*put, *words).err
    assert len(keep("collection", "list", "main").out.splitlines()) == into


def test_a_collection_is_named_kept_changed_and_deleted(keep, files):
    [made] = collection(keep, "put", "main", files / "flights.csv")
    uuid = made["uuid"]
    assert "until 20" in keep("collection", "list", "main").out
    assert collection(keep, "persist", "main", uuid)[0]["ends"] is None
    assert collection(keep, "name", "main", uuid, "hour 06")[0]["name"] == "hour 06"
    [changed] = collection(keep, "put", "main", files / "raw", "--into", "hour 06")
    assert (changed["uuid"], changed["version"], changed["name"]) == (uuid, 2, "hour 06")
    [earlier] = collection(keep, "versions", "main", "hour 06")
    assert earlier["data_hash"] == made["data_hash"] != changed["data_hash"]
    assert collection(keep, "ephemeral", "main", "hour 06")[0]["ends"] is not None
    assert [each["uuid"] for each in collection(keep, "list", "main")] == [uuid]
    assert collection(keep, "list", "main", "--owner", "ann") == []
    assert keep("collection", "delete", "main", "hour 06").out == f"deleted {uuid}\n"
    assert "there is no collection" in keep("collection", "show", "main", uuid).err


def test_a_block_in_trash_comes_back(keep, files, server):
    [locator] = keep("put", "main", files / "flights.csv").out.split()
    [volume] = server.store.volumes.values()
    volume.trash(locator[:32], 0, 3600)
    assert "`graveler keep untrash` brings it back" in keep("get", "main", locator).err
    assert keep("untrash", "main", locator).out == "the block is back on 1 servers\n"
    assert keep("get", "main", locator).raw == (files / "flights.csv").read_bytes()
    assert "404" in keep("untrash", "main", "0" * 32 + "+3").err


def test_a_drain_warns_of_fewer_servers_than_copies(cli, lake):
    cli("keep", "create", "main")
    uuids = [lake.keep.add_server("main", f"http://h:{port}/").uuid for port in (1, 2, 3)]
    assert cli("keep", "servers", "drain", "main", uuids[0]).out == (
        f"server {uuids[0]} is draining\n"
    )
    said = cli("keep", "servers", "drain", "main", uuids[1]).out
    assert "1 active servers are fewer than 2 copies" in said
    assert "`graveler keep servers add main URL`" in said


def test_the_advice_is_an_address_that_others_reach(cli, folder, monkeypatch):
    monkeypatch.setattr("graveler.server.server._POLL_SECONDS", 0.01)
    monkeypatch.setattr("graveler.cli.verbs.serving.keep.serve", lambda opened: opened().cut())
    cli("keep", "create", "main")
    certificate, key = of_localhost(folder)
    tls = ("--host", "0.0.0.0", "--tls-cert", certificate, "--tls-key", key)  # noqa: S104 - the case
    said = cli("keep", "serve", "main", folder / "disk", "--port", "0", *tls).out
    assert "`graveler keep servers add main https://HOST:" in said
    assert "in place of HOST, give a name of this machine" in said
    said = cli("keep", "serve", "main", folder / "disk", "--port", "0").out
    assert "`graveler keep servers add main http://127.0.0.1:" in said
    assert "HOST" not in said


def test_certificates_are_given_in_files(cli, lake, folder):
    certificate, _ = of_localhost(folder)
    cli("keep", "create", "main", "--tls-ca", certificate)
    assert lake.keep.get("main").tls_ca == certificate.read_text()
    cli("keep", "create", "second")
    assert cli("keep", "trust", "second", certificate).code == 0
    assert lake.keep.get("second").tls_ca == certificate.read_text()
