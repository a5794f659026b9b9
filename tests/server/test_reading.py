"""The operations that read, over a socket."""

import os
from http.client import IncompleteRead
from pathlib import Path
from threading import Semaphore

import pytest

import graveler
from graveler.reads.view import View

FIELDS = {
    "accessTime",
    "blockSize",
    "childrenNum",
    "fileId",
    "group",
    "length",
    "modificationTime",
    "owner",
    "pathSuffix",
    "permission",
    "replication",
    "storagePolicy",
    "type",
}


def on_disk(branch, entry):
    """Return the file of an entry in a lake on disk."""
    return Path(branch.uri(entry).removeprefix("file://"))


def test_the_status_of_a_file(client, dev):
    entry = dev.put("t/a.csv", b"hello")
    status = client.get("/t/a.csv", "GETFILESTATUS").json["FileStatus"]
    assert status.keys() == FIELDS
    assert (status["type"], status["length"], status["pathSuffix"]) == ("FILE", 5, "")
    assert status["modificationTime"] == int(entry.mtime.timestamp() * 1000)
    assert status["permission"] == "644"
    assert "Content-Type" not in client.open("/t/a.csv").headers  # Spark lacks a class to read it
    status = client.get("/t/", "GETFILESTATUS").json["FileStatus"]
    assert status.keys() == FIELDS
    assert (status["type"], status["length"], status["permission"]) == ("DIRECTORY", 0, "755")
    assert (status["replication"], status["childrenNum"]) == (0, 0)


def test_the_status_of_nothing_is_not_found(client):
    got = client.get("/t", "GETFILESTATUS")
    assert got.failure == client.get("/t", "LISTSTATUS").failure == (404, "FileNotFoundException")
    assert got.message == "File does not exist: /flights/dev/t"
    assert got.json["RemoteException"]["javaClassName"] == "java.io.FileNotFoundException"


def test_a_folder_lists_its_files_and_folders(client, dev):
    for path in ("t/b", "t/a/x", "t/a-b", "t/c/y/z", "u"):
        dev.put(path, b"")
    assert client.names("/t") == ["a/", "a-b", "b", "c/"]
    assert client.names("") == ["t/", "u"]


def test_a_file_lists_itself_without_a_name(client, dev):
    dev.put("a", b"hello")
    (status,) = client.get("/a", "LISTSTATUS").json["FileStatuses"]["FileStatus"]
    assert (status["pathSuffix"], status["length"]) == ("", 5)


def test_names_with_a_colon_are_no_addresses(client, dev):
    dev.put("2013/05:00/part:1", b"x")
    assert client.names("/2013") == ["05:00/"]
    client.headers["User-Agent"] = (
        "Java/17.0.12"  # its classes take a name with a colon as an address
    )
    assert client.names("/2013") == ["./05:00/"]
    assert client.names("/2013/05:00") == ["./part:1"]
    assert client.open("/2013/./05:00/part:1").failure == (400, "IllegalArgumentException")
    assert client.open("/2013/05:00/part:1").body == b"x"


def test_a_long_folder_is_listed_by_pages(client, dev, monkeypatch):
    monkeypatch.setattr("graveler.server.webhdfs.operations._PAGE", 2)
    for path in ("t/a/x", "t/a-b", "t/c:d", "t/e", "t/f"):
        dev.put(path, b"")
    client.mkdirs("/t/a-empty")
    assert pages(client) == [["a-b", "a-empty"], ["a", "c:d"], ["e", "f"]]


def test_a_file_and_a_folder_of_one_name_are_paged(client, dev, monkeypatch):
    monkeypatch.setattr("graveler.server.webhdfs.operations._PAGE", 2)
    for path in ("t/A", "t/a", "t/a-b", "t/a-c", "t/a/x", "t/b"):
        dev.put(path, b"")
    assert pages(client) == [["A"], ["a", "a-b"], ["a-c", "a"], ["b"]]


def pages(client):
    """Return the names on each page of a folder, as a client reads them."""
    found, after, left = [], "", 1
    while left:
        listing = client.get("/t", "LISTSTATUS_BATCH", startAfter=after).json["DirectoryListing"]
        page = listing["partialListing"]["FileStatuses"]["FileStatus"]
        found.append([each["pathSuffix"] for each in page])
        after, left = found[-1][-1], listing["remainingEntries"]
    return found


@pytest.mark.parametrize("where", ["memory", "folder"])
@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({}, slice(None)),
        ({"offset": 0}, slice(None)),
        ({"offset": 7}, slice(7, None)),
        ({"offset": 7, "length": 90_000}, slice(7, 90_007)),
        ({"length": 3}, slice(3)),
        ({"offset": 299_999, "length": 9}, slice(299_999, None)),
        ({"offset": 300_000}, slice(0, 0)),
    ],
)
def test_bytes_from_anywhere(serve, lake, dev, tmp_path, where, part, expected):
    content = bytes(range(250)) * 1200
    with graveler.open(tmp_path / "lake", create=True) as folder:
        on_disk = folder.create_repository("flights").create_branch("dev")
        (dev if where == "memory" else on_disk).put("a", content)
        client = serve(lake=lake if where == "memory" else folder)
        assert client.open("/a", **part).body == content[expected]
        assert client.kind("/a") == "FILE"  # on the same connection


def test_bytes_are_the_same_while_many_are_sent(client, dev, monkeypatch):
    monkeypatch.setattr("graveler.server.downloads._AHEAD", Semaphore(0))
    content = bytes(range(250)) * 1200
    dev.put("a", content)
    assert client.open("/a").body == content
    assert client.open("/a", offset=70_000, length=90_000).body == content[70_000:160_000]


def test_a_client_may_ask_where_to_without_going_there(client, dev):
    dev.put("a", b"hello")
    got = client.get("/a", "OPEN", noredirect="true")
    assert got.status == 200
    assert got.json["Location"].endswith("&data=true")


def test_a_client_behind_a_proxy_goes_back_to_the_proxy(client, dev):
    dev.put("a", b"hello")
    headers = {"Host": "lake.example.org", "X-Forwarded-Proto": "https"}
    got = client.send("GET", client.target("/a", "OPEN"), headers=headers)
    assert got.headers["Location"].startswith("https://lake.example.org/webhdfs/v1/flights/dev/a?")


@pytest.mark.parametrize("ahead", [0, 1])
def test_damage_is_not_sent_as_a_whole_file(serve, tmp_path, monkeypatch, ahead):
    monkeypatch.setattr("graveler.server.downloads._AHEAD", Semaphore(ahead))
    with graveler.open(tmp_path / "lake", create=True) as folder:
        branch = folder.create_repository("flights").create_branch("dev")
        entry = branch.put("a", bytes(3_000_000))
        on_disk(branch, entry).write_bytes(bytes(2_999_999) + b"1")
        client = serve(lake=folder)
        client.connection.request("GET", client.target("/a", "OPEN", data="true"))
        got = client.connection.getresponse()
        with pytest.raises(Exception, match="IncompleteRead"):
            got.read()


def test_a_file_of_another_size_is_refused(serve, tmp_path, capfd):
    with graveler.open(tmp_path / "lake", create=True) as folder:
        branch = folder.create_repository("flights").create_branch("dev")
        entry = branch.put("a", bytes(100))
        on_disk(branch, entry).write_bytes(bytes(99))
        got = serve(lake=folder).open("/a", offset=1)
    assert got.failure == (403, "IOException")
    assert "has 99 bytes, and its entry has 100 bytes" in got.message
    assert "has 99 bytes" in capfd.readouterr().err


@pytest.mark.parametrize("part", [{}, {"offset": 1}])
def test_a_file_whose_bytes_are_gone_is_damaged(client, dev, capfd, part):
    dev.repository.objects.delete(dev.put("t/a", b"hello").address)
    got = client.open("/t/a", **part)
    assert got.failure == (403, "IOException")
    assert "the bytes of 't/a' are gone" in got.message
    assert "the bytes of 't/a' are gone" in capfd.readouterr().err


@pytest.mark.parametrize("part", [{"data": "true"}, {"offset": 1}])
def test_a_file_that_becomes_shorter_ends_the_answer(serve, tmp_path, capfd, part):
    with graveler.open(tmp_path / "lake", create=True) as folder:
        branch = folder.create_repository("flights").create_branch("dev")
        entry = branch.put("a", bytes(32 << 20))  # more than the sockets buffer
        client = serve(lake=folder)
        client.connection.timeout = 20  # shorter than the gateway's limit for idle connections
        client.connection.request("GET", client.target("/a", "OPEN", **part))
        got = client.connection.getresponse()
        os.truncate(on_disk(branch, entry), 1000)
        with pytest.raises(IncompleteRead):
            got.read()
    assert "and its entry has 33554432 bytes" in capfd.readouterr().err


@pytest.mark.parametrize("part", [{"data": "true"}, {"offset": 1}])
def test_a_linked_file_that_changes_ends_the_answer(serve, tmp_path, capfd, part):
    file = tmp_path / "landing" / "raw"
    file.parent.mkdir()
    file.write_bytes(bytes(32 << 20))  # more than the sockets buffer
    with graveler.open(tmp_path / "lake", create=True) as folder:
        repo = folder.create_repository("flights")
        repo.links.allow(str(file.parent))
        repo.create_branch("dev").link("a", address=str(file))
        client = serve(lake=folder)
        client.connection.timeout = 20  # shorter than the gateway's limit for idle connections
        client.connection.request("GET", client.target("/a", "OPEN", **part))
        got = client.connection.getresponse()
        file.write_bytes(b"n" * (32 << 20))
        with pytest.raises(IncompleteRead) as cut:
            got.read()
    assert b"n" not in cut.value.partial
    assert "written while it was read" in capfd.readouterr().err


def test_the_summary_counts_files_folders_and_bytes(client, dev):
    for path, size in (("t/a", 3), ("t/b/c/d", 4), ("t/b/c/e", 5), ("u", 6)):
        dev.put(path, bytes(size))
    client.mkdirs("/t/empty")
    summary = client.get("/t", "GETCONTENTSUMMARY").json["ContentSummary"]
    assert (summary["fileCount"], summary["directoryCount"], summary["length"]) == (3, 4, 12)
    assert client.get("/u", "GETCONTENTSUMMARY").json["ContentSummary"]["length"] == 6


def test_the_summary_counts_a_folder_of_a_job_once(client, dev):
    dev.put("t/p/a", b"x")
    client.create("/t/_temporary/0/b", b"yy")
    summary = client.get("", "GETCONTENTSUMMARY").json["ContentSummary"]
    assert (summary["fileCount"], summary["directoryCount"], summary["length"]) == (2, 5, 3)


def test_a_lake_has_space_without_bounds(client):
    space = client.get("", "GETSTATUS").json["FsStatus"]
    assert space == {"capacity": 2**63 - 1, "used": 0, "remaining": 2**63 - 1}


@pytest.mark.parametrize("path", ["/Flights/dev/a", "/flights/-x"])
def test_a_name_that_nothing_can_have_is_not_found(serve, repo, path):
    client = serve()
    client.root = ""
    assert client.get(path, "GETFILESTATUS").failure == (404, "FileNotFoundException")
    assert client.mkdirs(path).failure == (404, "FileNotFoundException")


def test_a_page_does_not_read_the_pages_before(client, dev, monkeypatch):
    monkeypatch.setattr("graveler.server.webhdfs.operations._PAGE", 2)
    for number in range(6):
        dev.put(f"t/{number}", b"")
    read = []
    real = View.list

    def listed(*args, **options):
        for each in real(*args, **options):
            read.append(each.path)
            yield each

    monkeypatch.setattr(View, "list", listed)
    client.get("/t", "LISTSTATUS_BATCH", startAfter="2")
    assert read == ["t/3", "t/4", "t/5"]


def test_a_file_is_one_block(client, dev):
    dev.put("a", b"hello")
    dev.put("empty", b"")
    (block,) = client.get("/a", "GETFILEBLOCKLOCATIONS").json["BlockLocations"]["BlockLocation"]
    assert (block["offset"], block["length"], block["hosts"]) == (0, 5, ["localhost"])
    assert client.get("/empty", "GETFILEBLOCKLOCATIONS").json["BlockLocations"] == {
        "BlockLocation": []
    }
    old = client.get("/a", "GET_BLOCK_LOCATIONS").json["LocatedBlocks"]
    assert (old["fileLength"], old["locatedBlocks"][0]["block"]["numBytes"]) == (5, 5)
    assert (old["isUnderConstruction"], old["isLastBlockComplete"]) == (False, True)
    assert old["locatedBlocks"][0]["isCorrupt"] is False


def test_what_a_client_asks_of_a_cluster(client):
    assert client.get("", "GETHOMEDIRECTORY").json == {"Path": "/"}
    assert client.get("", "GETDELEGATIONTOKEN").json == {"Token": None}
    defaults = client.get("", "GETSERVERDEFAULTS").json["FsServerDefaults"]
    assert (defaults["replication"], defaults["trashInterval"]) == (1, 0)


def test_repositories_and_refs_are_listed_as_folders(serve, lake, repo, dev):
    lake.create_repository("other")
    repo.tags.create("v1", "dev")
    client = serve()
    client.root = ""
    assert client.names("/") == ["flights/", "other/"]
    assert client.names("/flights") == ["dev/", "main/", "v1/"]
    assert client.kind("/flights") == client.kind("/") == "DIRECTORY"
    rest = client.get("/flights", "LISTSTATUS_BATCH", startAfter="dev").json["DirectoryListing"]
    listed = rest["partialListing"]["FileStatuses"]["FileStatus"]
    assert [each["pathSuffix"] for each in listed] == ["main", "v1"]
    assert client.get("/flights", "GETCONTENTSUMMARY").json["ContentSummary"]["fileCount"] == 0


def test_a_repository_that_is_made_again_is_served(client, dev, world, lake):
    """The gateway kept the deleted one, and accepted writes for it."""
    dev.put("a", b"old")
    client.get("/a", "GETFILESTATUS")
    lake.delete_repository("flights")
    assert client.get("/a", "GETFILESTATUS").failure == (404, "FileNotFoundException")
    with world.open() as another:
        repo = another.create_repository("flights", storage="mem://made-again")
        repo.create_branch("dev").put("a", b"new and longer")
    assert client.get("/a", "GETFILESTATUS").json["FileStatus"]["length"] == 14
    assert client.open("/a").body == b"new and longer"


def test_a_branch_that_is_made_again_has_no_working_files(client, dev, repo):
    """Files of jobs on the deleted branch could be moved into the new one."""
    client.create("/t/_temporary/0/a", b"old")
    repo.delete_branch("dev")
    repo.create_branch("dev")
    assert client.kind("/t") == ""
    assert client.rename("/t/_temporary/0/a", "/a").json == {"boolean": False}
