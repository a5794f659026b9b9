"""Download of a folder: whole files, and which are kept, deleted, refused or resumed."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import graveler
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    SourceChangedError,
    StorageFullError,
)
from graveler.model import Entry, Transfer
from graveler.reads.local import downloads, folders
from tests.engine.files.folders import FILES, everywhere


@pytest.fixture
def filled(repo):
    main = repo.branch("main")
    main.put_many({f"in/{name}": text.encode() for name, text in FILES.items()})
    main.put_many({"inn": b"beside", "out/x": b"beside"})
    main.commit("all")
    return main


@pytest.fixture
def here(tmp_path):
    """A local folder to download into."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def local(root):
    return {
        file.relative_to(root).as_posix(): file.read_text()
        for file in root.rglob("*")
        if file.is_file()
    }


def version(file):
    status = file.stat()  # without the time of the last access, which a read changes
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@everywhere
@pytest.mark.parametrize("threads", [None, 1])
def test_what_differs_comes_down_and_the_rest_stays(filled, here, threads):
    target = here / "new" / "target"
    assert filled.download("in", target, threads=threads) == Transfer(files=6, bytes=5)
    assert local(target) == FILES
    (target / "a").write_text("9")  # same size, other content
    (target / "sub/b").write_text("longer")
    (target / "sub/deep/c").unlink()
    (target / "mine").write_text("stays")
    kept = version(target / "sub.txt")
    seen: list[tuple[str, int, int]] = []
    done = filled.download(
        "in/", str(target), threads=threads, progress=lambda *told: seen.append(told)
    )
    assert done == Transfer(files=3, bytes=3, skipped=3)
    assert [told[:2] for told in seen] == [("download", number) for number in range(1, 7)]
    assert local(target) == {**FILES, "mine": "stays"}
    assert version(target / "sub.txt") == kept
    (here / "plain").write_text("")
    assert (target / "a").stat().st_mode == (here / "plain").stat().st_mode


def test_nothing_below_a_prefix_is_an_error_and_deletes_nothing(repo, filled, here):
    (here / "mine").write_text("stays")
    for prefix in ("input", "in/a", "i"):
        with pytest.raises(ObjectNotFoundError, match=f"nothing below '{prefix}/' in 'main'"):
            filled.download(prefix, here, delete=True)
    with pytest.raises(InvalidInputError, match="is no folder"):
        filled.download("in", here / "mine")
    assert local(here) == {"mine": "stays"}
    repo.create_branch("empty", source="main~1")
    assert repo.branch("empty").download("", here / "no") == Transfer(0, 0)
    assert not (here / "no").exists()


def test_a_mirror_deletes_what_the_tree_does_not_have(filled, here):
    filled.download("in", here)
    for name in ("mine", "sub/mine", "old/er/mine", "sub.x/mine"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("")
    (here / "link").symlink_to(here.parent, target_is_directory=True)
    (here / "broken").symlink_to("nothing")
    (here / "empty").mkdir()
    (here / "a").unlink()
    (here / "a" / "empty" / "deeper").mkdir(parents=True)
    (here / "a" / "link").symlink_to(here.parent)
    assert filled.download("in", here, delete=True) == Transfer(1, 1, skipped=5, deleted=7)
    assert local(here) == FILES
    assert not (here / "old").exists()
    assert not (here / "link").is_symlink()
    assert here.parent.is_dir()


def test_a_pattern_chooses_the_files(filled, here):
    chosen = {name: text for name, text in FILES.items() if name.startswith("sub/")}
    (here / "mine").write_text("stays")
    assert filled.download("in", here, only="in/sub/**").files == len(chosen) > 1
    assert local(here) == {**chosen, "mine": "stays"}
    with pytest.raises(ObjectNotFoundError, match=r"no file matches 'in/\*z' in 'main'"):
        filled.download("in", here, only="in/*z")
    with pytest.raises(InvalidInputError, match="together with delete"):
        filled.download("in", here, only="in/*", delete=True)


@pytest.mark.parametrize("name", ["sub/mine", "mine[1].csv", "m[1]/mine.csv"])
def test_what_is_excluded_is_neither_downloaded_nor_deleted(repo, filled, here, name):
    """An excluded name may look like a pattern."""
    (here / name).parent.mkdir(exist_ok=True)
    (here / name).write_text("precious")
    (here / "gone").write_text("")
    excluded = [name.split("/")[0], ".*"]
    assert filled.download("in", here, exclude=excluded, delete=True).deleted == 1
    expected = {
        path: text for path, text in FILES.items() if not path.startswith((f"{excluded[0]}/", "."))
    }
    assert local(here) == {**expected, name: "precious"}
    main = repo.branch("main")
    main.put(f"up/{name}", b"kept")
    done = main.upload(here, "up", exclude=excluded, delete=True)
    assert (done.files, done.deleted) == (len(expected), 0)
    assert main.get(f"up/{name}") == b"kept"


def test_a_link_out_of_the_folder_is_not_followed(filled, here):
    outside, target = here / "outside", here / "target"
    outside.mkdir()
    target.mkdir()
    (target / "sub").symlink_to(outside, target_is_directory=True)
    (outside / "victim").write_text("precious")
    (target / "a").symlink_to(outside / "victim")
    with pytest.raises(InvalidInputError, match=f"in/sub/b.* outside of {target}"):
        filled.download("in", target)
    assert local(outside) == {"victim": "precious"}
    assert not (target / "a").is_symlink()
    (target / "sub").unlink()
    (target / "real").mkdir()
    (target / "sub").symlink_to("real", target_is_directory=True)
    filled.download("in", target)
    assert (target / "real" / "b").read_text() == "2"


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a//x", "./x", "a\0b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(here, name):
    """A tree has no such path, unless it is damaged."""
    with pytest.raises(InvalidInputError):
        folders.Place(here / "in").of(name)
    unread: Any = None
    files = downloads._Files(unread, folders.Place(here / "in"))
    assert isinstance(files.job(name, Entry(name, "data/x", 1))[1], InvalidInputError)
    assert list(here.iterdir()) == []


def test_a_file_in_place_of_a_folder_stops_what_lies_below(filled, here):
    (here / "sub").write_text("a file")
    (here / "a").mkdir()
    with pytest.raises(InvalidInputError) as caught:
        filled.download("in", here)
    for said in ("'in/sub/b'", "'in/sub/deep/c'", "'in/a'", "the other 3 files are there"):
        assert said in str(caught.value)
    assert local(here) == {"sub": "a file", "sub.txt": "4", ".hidden/.d": "5", "größe ü": ""}
    (here / "a" / "b.tmp").write_text("excluded")
    (here / "a" / "c").write_text("other")
    with pytest.raises(InvalidInputError, match="'in/a': Is a directory"):
        filled.download("in", here, delete=True, exclude=["*.tmp"])
    others = {name: text for name, text in FILES.items() if name != "a"}
    assert local(here) == {**others, "a/b.tmp": "excluded"}


def test_a_mirror_replaces_files_by_folders_and_back(repo, here):
    main = repo.branch("main")
    trees = [
        {"x": "1", "y/a": "2", "y/b/c": "3", "z/a/b": "4"},
        {"x/a/b": "5", "x/c": "6", "y": "7", "z/a": "8"},
        {"x/a": "9", "y/b": "10", "z/a/b/c": "11"},
    ]
    commits = []
    for tree in trees:
        main.delete_many([entry.path for entry in main.entries()])
        main.put_many({name: text.encode() for name, text in tree.items()})
        commits.append(main.commit("another tree"))
    before: dict[str, str] = {}
    for number in (0, 1, 2, 0, 2, 1, 0):
        done = repo.ref(commits[number]).download("", here, delete=True)
        assert local(here) == trees[number]
        assert done.files == len(trees[number])
        assert done.deleted == len(before.keys() - trees[number].keys())
        before = trees[number]


def damaged(repo, filled, _):
    repo.stores.objects.put(filled.stat("in/sub/b").address, b"X")


def gone(repo, filled, _):
    repo.stores.objects.delete(filled.stat("in/sub/b").address)


def unreadable(repo, filled, file):
    file.parent.mkdir()
    file.write_text("x")
    repo.links.allow(str(file.parent))
    filled.link("in/sub/b", address=str(file))
    file.unlink()
    file.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        (damaged, CorruptionError),
        (gone, ObjectNotFoundError),
        (unreadable, PermissionDeniedError),
    ],
)
def test_what_cannot_be_read_is_not_written_and_the_rest_is(repo, filled, here, harm, error):
    harm(repo, filled, here.parent / "landing" / "x")
    (here / "sub").mkdir()
    (here / "sub" / "b").write_text("the old one")
    with pytest.raises(error, match=r"'in/sub/b'.*the other 5 files are there"):
        filled.download("in", here)
    assert local(here) == {**FILES, "sub/b": "the old one"}
    with pytest.raises(error, match="'in/sub/b'"):
        list(filled.get_many(["in/a", "in/sub/b"]))


def test_a_full_disk_ends_the_call(filled, here, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device", "disk")

    monkeypatch.setattr(downloads, "whole_file", full)
    with pytest.raises(StorageFullError, match="free some space"):
        filled.download("in", here)


def test_a_large_file_comes_in_pieces_and_is_compared(repo, here, monkeypatch):
    monkeypatch.setattr(downloads, "PIECE_BYTES", 1000)
    content = os.urandom(12_345)
    entry = repo.branch("main").put("large", content)
    repo.branch("main").download("", here)
    assert (here / "large").read_bytes() == content
    repo.stores.objects.put(entry.address, bytes(12_345))
    with pytest.raises(CorruptionError):
        repo.branch("main").download("", here / "again")
    assert list((here / "again").iterdir()) == []


def test_parts_of_dead_processes_go_those_of_living_ones_stay(repo, filled, here):
    filled.download("in", here)
    dead = here / "sub" / ".graveler-part-999999-1"
    dead.write_text("half")
    assert repo.branch("main").upload(here, "up").files == 6
    with folders.whole_file(here / "sub" / "x") as out:
        out.write(b"whole")
        filled.download("in", here)
        assert not dead.exists()
    assert (here / "sub" / "x").read_text() == "whole"
    with suppress(KeyError), folders.whole_file(here / "y") as out:
        out.write(b"half")
        raise KeyError
    assert local(here) == {**FILES, "sub/x": "whole"}


def test_the_lake_is_not_written_over(tmp_path):
    home = tmp_path / "lake"
    with graveler.init(home) as lake:
        repo = lake.create_repository("rep")
        main = repo.branch("main")
        bad = ["graveler.toml", "kv.sqlite3", "kv.sqlite3-wal", "objects/rep/x"]
        for path in bad:
            main.put(path, b"junk")
        main.put("out/good", b"good")
        before = (home / "graveler.toml").read_bytes()
        with pytest.raises(InvalidInputError, match=r"one of the lake's own files.*exclude"):
            main.download("", home)
        assert (home / "graveler.toml").read_bytes() == before
        assert (home / "out/good").read_bytes() == b"good"
        main.download("", home, exclude=bad)
        with pytest.raises(InvalidInputError):
            main.download("out", home / "objects" / "rep")
    with graveler.open(home) as lake:
        assert lake.repository("rep").branch("main").get("out/good") == b"good"


@pytest.fixture
def two(tmp_path):
    """The branch main of a repository, and another repository whose storage is elsewhere."""
    with graveler.init(tmp_path / "lake") as lake:
        other = lake.create_repository("other", storage=tmp_path / "stores" / "other")
        main = lake.create_repository("flights").branch("main")
        for branch in (other.branch("main"), main):
            branch.put("a", b"1")
            branch.commit("one")
        yield lake, main
        assert lake.repository("other").fsck().sound
        assert (lake.repository("other").ref("main").get("a"), main.get("a")) == (b"1", b"1")


@pytest.mark.parametrize("deleted", [False, True])
def test_no_storage_of_the_lake_is_touched(two, tmp_path, deleted):
    """Every storage of a lake is its own, also that of a repository that may come back."""
    lake, main = two
    if deleted:
        lake.delete_repository("other")
    for place in (".", "..", "lake/objects", "stores", "stores/other", "stores/other/data"):
        with pytest.raises(InvalidInputError, match="the lake's"):
            main.download("", tmp_path / place, delete=True)
    for place in (".", "stores", "stores/other", "stores/other/data"):
        with pytest.raises(InvalidInputError, match="the lake's"):
            main.upload(tmp_path / place)
    storage = tmp_path / "stores" / "other"
    for place in (".", "data", "_graveler"):
        with pytest.raises(InvalidInputError, match="one of the lake's own files"):
            main.download("", storage / place)
    with pytest.raises(InvalidInputError, match="one of the lake's own files"):
        lake.repository("flights").dump_refs(storage / "_graveler" / "marker")
    if deleted:
        lake.undelete_repository("other")


@pytest.mark.parametrize("mounted", ["", "stores/other", "lake", "lake/objects"])
@pytest.mark.parametrize("below", ["mnt", "mnt/sub/x"])
def test_a_folder_that_is_mounted_twice_is_known(two, tmp_path, monkeypatch, mounted, below):
    """A second mount has the same inodes. A link is its stand-in, because a mount needs rights."""
    _, main = two
    mount = tmp_path / below
    mount.parent.mkdir(parents=True, exist_ok=True)
    mount.symlink_to(tmp_path / mounted, target_is_directory=True)
    monkeypatch.setattr(os.path, "realpath", os.path.abspath)
    monkeypatch.setattr(Path, "resolve", Path.absolute)
    monkeypatch.setattr(folders, "_is_folder", lambda entry, **_: Path(entry.path).is_dir())
    with pytest.raises(InvalidInputError, match="the lake's"):
        main.download("", tmp_path / "mnt", delete=True)
    monkeypatch.undo()


def test_a_linked_file_is_not_replaced_by_its_copy(repo, tmp_path):
    """A download into the folder of the linked files leaves them, so that the links stay."""
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a").write_bytes(b"1")
    repo.links.allow(str(landing))
    main = repo.branch("main")
    main.import_(landing, "in/")
    main.put("in/b", b"2")
    inode = (landing / "a").stat().st_ino
    assert main.download("in", landing) == Transfer(1, 1, skipped=1)
    assert (landing / "a").stat().st_ino == inode
    for files in (2, 1):  # there is no checksum to compare the copy with
        assert main.download("in", tmp_path / "t").files == files
    (landing / "a").write_bytes(b"33")
    with pytest.raises(SourceChangedError):
        main.download("in", landing)
