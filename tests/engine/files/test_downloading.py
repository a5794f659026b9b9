"""Download of a folder: whole files, and which are kept, deleted, refused or resumed."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import graveler
from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    SourceChangedError,
    StorageFullError,
)
from graveler.model import Entry, Transfer
from graveler.reads import downloads, folders
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
@pytest.mark.parametrize("threads", [None, 1, 4])
@pytest.mark.parametrize("prefix", ["in", "in/"])
def test_a_folder_comes_down_with_all_that_lies_below(filled, here, threads, prefix):
    target = here / "new" / "target"
    assert filled.download(prefix, target, threads=threads) == Transfer(files=6, bytes=5)
    assert local(target) == FILES
    assert filled.download(prefix, str(target), threads=threads) == Transfer(0, 0, skipped=6)


@everywhere
def test_what_differs_comes_down_and_the_rest_stays(repo, filled, here):
    filled.download("in", here)
    (here / "a").write_text("9")  # same size, other content
    (here / "sub/b").write_text("longer")
    (here / "sub/deep/c").unlink()
    (here / "mine").write_text("stays")
    kept = version(here / "sub.txt")
    assert repo.ref("main").download("in", here) == Transfer(files=3, bytes=3, skipped=3)
    assert local(here) == {**FILES, "mine": "stays"}
    assert version(here / "sub.txt") == kept


def test_a_whole_tree_comes_down(filled, here):
    assert filled.download("", here).files == 8
    assert local(here)["in/sub/b"] == "2"


def test_staged_writes_and_deletions_are_seen_on_a_branch(repo, filled, here):
    filled.delete("in/a")
    filled.put("in/new", b"n")
    filled.download("in", here / "branch")
    assert local(here / "branch") == {
        **{name: text for name, text in FILES.items() if name != "a"},
        "new": "n",
    }
    repo.ref("main").download("in", here / "head")
    assert local(here / "head") == FILES


def test_nothing_below_a_prefix_is_an_error_and_deletes_nothing(repo, filled, here):
    (here / "mine").write_text("stays")
    for prefix in ("input", "in/a", "i"):
        with pytest.raises(ObjectNotFoundError, match=f"nothing below '{prefix}/' in 'main'"):
            filled.download(prefix, here, delete=True)
    assert local(here) == {"mine": "stays"}
    repo.create_branch("empty", source="main~1")
    assert repo.branch("empty").download("", here / "no") == Transfer(0, 0)
    assert not (here / "no").exists()


@everywhere
def test_a_mirror_deletes_what_the_tree_does_not_have(filled, here):
    filled.download("in", here)
    for name in ("mine", "sub/mine", "old/er/mine", "sub.x/mine"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("")
    (here / "link").symlink_to(here.parent, target_is_directory=True)
    (here / "broken").symlink_to("nothing")
    (here / "empty").mkdir()
    assert filled.download("in", here, delete=True) == Transfer(0, 0, skipped=6, deleted=6)
    assert local(here) == FILES
    assert not (here / "old").exists()
    assert not (here / "link").is_symlink()
    assert here.parent.is_dir()


def test_what_is_excluded_is_neither_downloaded_nor_deleted(filled, here):
    (here / "sub").mkdir()
    (here / "sub" / "mine").write_text("")
    (here / "gone").write_text("")
    done = filled.download("in", here, exclude=["sub", ".*"], delete=True)
    assert (done.files, done.deleted) == (3, 1)
    assert sorted(local(here)) == ["a", "größe ü", "sub.txt", "sub/mine"]


@pytest.mark.parametrize("name", ["mine[1].csv", "m[1]/mine.csv"])
def test_an_excluded_name_may_look_like_a_pattern(repo, filled, here, name):
    file = here / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("precious")
    excluded = [name.split("/")[0]]
    filled.download("in", here, exclude=excluded, delete=True)
    assert file.read_text() == "precious"
    main = repo.branch("main")
    main.put(f"up/{name}", b"kept")
    done = main.upload(here, "up", exclude=excluded, delete=True)
    assert (done.files, done.deleted) == (len(FILES), 0)
    assert main.get(f"up/{name}") == b"kept"


def test_a_link_out_of_the_folder_is_not_followed(filled, here):
    outside, target = here / "outside", here / "target"
    outside.mkdir()
    target.mkdir()
    (target / "sub").symlink_to(outside, target_is_directory=True)
    (outside / "victim").write_text("precious")
    (target / "a").symlink_to(outside / "victim")
    with pytest.raises(InvalidInputError) as caught:
        filled.download("in", target)
    assert f"which lies outside of {target}" in str(caught.value)
    assert "'in/sub/b'" in str(caught.value)
    assert local(outside) == {"victim": "precious"}
    assert (target / "a").read_text() == "1"
    assert not (target / "a").is_symlink()


def test_a_link_within_the_folder_is_followed(filled, here):
    (here / "real").mkdir()
    (here / "sub").symlink_to("real", target_is_directory=True)
    filled.download("in", here)
    assert (here / "real" / "b").read_text() == "2"


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a//x", "./x", "a\0b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(here, name):
    with pytest.raises(InvalidInputError):
        folders.Place(here / "in").of(name)
    assert list(here.iterdir()) == []


def test_a_path_of_a_damaged_tree_leads_out_of_no_folder(repo, filled, here):
    """A path with such parts cannot be written."""
    entry = filled.stat("in/a")
    unread: Any = None
    jobs = downloads._Files(unread, folders.Place(here / "t"))
    job = jobs.job("../a", Entry("in/../a", entry.address, 1))
    assert isinstance(job.fault, InvalidInputError)
    assert job.place is None


def test_a_file_in_place_of_a_folder_stops_what_lies_below(filled, here):
    (here / "sub").write_text("a file")
    (here / "a").mkdir()
    with pytest.raises(InvalidInputError) as caught:
        filled.download("in", here)
    for said in ("'in/sub/b'", "'in/sub/deep/c'", "'in/a'", "the other 3 files are there"):
        assert said in str(caught.value)
    assert local(here) == {"sub": "a file", "sub.txt": "4", ".hidden/.d": "5", "größe ü": ""}


@everywhere
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


def test_a_mirror_removes_links_and_empty_folders_in_the_way(filled, here, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("mine")
    (here / "a" / "empty" / "deeper").mkdir(parents=True)
    (here / "a" / "link").symlink_to(tmp_path / "other")
    (here / "sub").symlink_to("nowhere")
    assert filled.download("in", here, delete=True).deleted == 2
    assert local(here) == FILES
    assert local(tmp_path / "other") == {"mine": "mine"}


def test_what_is_excluded_stays_in_the_place_of_a_file(filled, here):
    (here / "a").mkdir()
    (here / "a" / "b.tmp").write_text("excluded")
    (here / "a" / "c").write_text("other")
    with pytest.raises(InvalidInputError, match="'in/a': Is a directory"):
        filled.download("in", here, delete=True, exclude=["*.tmp"])
    others = {name: text for name, text in FILES.items() if name != "a"}
    assert local(here) == {**others, "a/b.tmp": "excluded"}


@pytest.mark.parametrize("delete", [False, True])
def test_a_disk_cannot_hold_a_path_that_is_a_folder_too(repo, here, delete):
    main = repo.branch("main")
    main.put_many({"x": b"file", "x/y": b"below", "z": b""})
    with pytest.raises(InvalidInputError, match="'x/y'"):
        main.download("", here, delete=delete, threads=1)
    assert local(here) == {"x": "file", "z": ""}
    with pytest.raises(InvalidInputError, match="exclude them, and download them apart"):
        main.download("", here, delete=delete)  # again does not help
    main.download("", here, delete=delete, exclude=["x/y"])
    main.download("x", here / "apart")
    assert local(here) == {"x": "file", "z": "", "apart/y": "below"}


@everywhere
def test_a_damaged_file_is_not_written_and_the_others_are(repo, filled, here):
    repo.stores.objects.put(filled.stat("in/sub/b").address, b"X")
    (here / "sub").mkdir()
    (here / "sub" / "b").write_text("the old one")
    with pytest.raises(CorruptionError) as caught:
        filled.download("in", here)
    assert "'in/sub/b'" in str(caught.value)
    assert "the other 5 files are there" in str(caught.value)
    assert local(here) == {**FILES, "sub/b": "the old one"}


def test_a_link_that_cannot_be_read_does_not_stop_others(repo, filled, here, tmp_path):
    (tmp_path / "landing").mkdir()
    repo.links.allow(str(tmp_path / "landing"))
    file = tmp_path / "landing" / "x"
    file.write_text("x")
    filled.link("in/linked", address=str(file))
    file.unlink()
    file.symlink_to(tmp_path / "landing" / "elsewhere")
    with pytest.raises(PermissionDeniedError) as caught:
        filled.download("in", here)
    assert "'in/linked'" in str(caught.value)
    assert "the other 6 files are there" in str(caught.value)
    assert local(here) == FILES
    with pytest.raises(PermissionDeniedError, match="'in/linked'"):
        list(filled.get_many(["in/a", "in/linked"]))


def test_bytes_that_are_gone_are_named(repo, filled, here):
    repo.stores.objects.delete(filled.stat("in/a").address)
    with pytest.raises(ObjectNotFoundError, match="'in/a'"):
        filled.download("in", here)
    assert len(local(here)) == 5


def test_a_full_disk_ends_the_call(filled, here, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device", "disk")

    monkeypatch.setattr(downloads, "whole_file", full)
    with pytest.raises(StorageFullError, match="free some space"):
        filled.download("in", here)


def test_a_store_that_fails_ends_it_and_a_second_call_goes_on(repo, filled, here, monkeypatch):
    got: list[str] = []
    get = repo.stores.objects.get

    def failing(key, *given):
        if key.startswith("data/"):
            if len(got) == 3:
                raise BackendUnavailableError("no answer")
            got.append(key)
        return get(key, *given)

    monkeypatch.setattr(repo.stores.objects, "get", failing)
    with pytest.raises(BackendUnavailableError, match=r"'in/.*': no answer"):
        filled.download("in", here, threads=1)
    monkeypatch.undo()
    done = filled.download("in", here)
    assert (done.files, done.skipped) == (3, 3)
    assert local(here) == FILES


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


def test_a_linked_file_without_a_checksum_is_downloaded_again(repo, here):
    source = here / "source"
    source.mkdir()
    (source / "a").write_text("1")
    repo.links.allow(str(source))
    repo.branch("main").link("a", address=str(source / "a"))
    for _ in range(2):
        assert repo.branch("main").download("", here / "t").files == 1


def test_a_file_is_no_folder_to_download_into(filled, here):
    (here / "file").write_text("mine")
    with pytest.raises(InvalidInputError, match="is no folder"):
        filled.download("in", here / "file")


def test_a_mirror_never_deletes_the_lake(lake, filled, tmp_path, monkeypatch):
    storage = filled.repository.objects.local_file("data").parent
    for folder in (tmp_path, tmp_path.parent, storage, storage / "data"):
        with pytest.raises(InvalidInputError, match="the lake's"):
            filled.download("in", folder, delete=True)
    assert filled.download("in", tmp_path).files == 6
    assert filled.get("in/a") == b"1"


def test_parts_of_dead_processes_go_those_of_living_ones_stay(filled, here):
    filled.download("in", here)
    dead = here / "sub" / ".graveler-part-999999-1"
    dead.write_text("half")
    with folders.whole_file(here / "sub" / "x") as out:
        out.write(b"whole")
        filled.download("in", here)
        assert not dead.exists()
    assert (here / "sub" / "x").read_text() == "whole"


def test_a_file_that_cannot_be_completed_leaves_nothing(here):
    with suppress(KeyError), folders.whole_file(here / "x") as out:
        out.write(b"half")
        raise KeyError
    assert list(here.iterdir()) == []


def test_parts_are_not_uploaded(repo, here):
    (here / ".graveler-part-1-1").write_text("half")
    (here / "a").write_text("1")
    assert repo.branch("main").upload(here).files == 1


def test_files_have_the_rights_that_the_user_gives_new_files(filled, here):
    (here / "plain").write_text("")
    filled.download("in", here)
    assert (here / "a").stat().st_mode == (here / "plain").stat().st_mode


def test_a_run_records_the_folder_as_its_input(repo, filled, here):
    run = repo.runs.open("hour")
    run.view().download("in", here)
    assert [read.prefix for read in run.inputs] == ["in/"]


def test_progress_grows_with_what_is_known(filled, here):
    seen = []
    filled.download("in", here, progress=lambda *told: seen.append(told))
    assert seen == [("download", number, number) for number in range(1, 7)]


def test_a_relative_folder_starts_where_the_program_stands(filled, here, monkeypatch):
    monkeypatch.chdir(here)
    filled.download("in", "there")
    assert local(here / "there") == FILES
    (Path("there") / "mine").write_text("")
    assert filled.download("in", "there", delete=True).deleted == 1
    monkeypatch.chdir(here / "there")
    assert filled.download("in", ".", delete=True).skipped == 6


def test_the_lake_is_not_written_over(tmp_path):
    home = tmp_path / "lake"
    with graveler.init(home) as lake:
        repo = lake.create_repository("rep")
        main = repo.branch("main")
        bad = ["graveler.toml", "kv.sqlite3", "kv.sqlite3-wal", "objects/rep/x", "objects"]
        for path in bad[:4]:
            main.put(path, b"junk")
        main.put("out/good", b"good")
        main.commit("c")
        before = (home / "graveler.toml").read_bytes()
        for ref, where in ((main, home), (repo.ref("main"), home)):
            with pytest.raises(InvalidInputError, match="one of the lake's own files") as caught:
                ref.download("", where)
            assert "exclude" in str(caught.value)
        assert (home / "graveler.toml").read_bytes() == before
        assert (home / "out/good").read_bytes() == b"good"
        main.download("", home, exclude=bad[:4])
        with pytest.raises(InvalidInputError):
            main.download("out", home / "objects" / "rep")
    with graveler.open(home) as lake:
        assert lake.repository("rep").branch("main").get("out/good") == b"good"


def two_repositories(lake, storage):
    """Return a repository whose storage is elsewhere, and the branch main of another one."""
    other = lake.create_repository("other", storage=storage)
    main = lake.create_repository("flights").branch("main")
    for branch in (other.branch("main"), main):
        branch.put("a", b"1")
        branch.commit("one")
    return other, main


@pytest.mark.parametrize("deleted", [False, True])
def test_the_storage_of_another_repository_is_not_touched(tmp_path, deleted):
    """Every storage of a lake is its own, also that of a repository that may come back."""
    with graveler.init(tmp_path / "lake") as lake:
        other, main = two_repositories(lake, tmp_path / "stores" / "other")
        if deleted:
            lake.delete_repository("other")
        for place in ("stores", "stores/other", "stores/other/data"):
            with pytest.raises(InvalidInputError, match="the lake's"):
                main.download("", tmp_path / place, delete=True)
            with pytest.raises(InvalidInputError, match="the lake's"):
                main.upload(tmp_path / place)
        for place in ("", "data", "_graveler"):
            with pytest.raises(InvalidInputError, match="one of the lake's own files"):
                main.download("", tmp_path / "stores" / "other" / place)
        with pytest.raises(InvalidInputError, match="one of the lake's own files"):
            lake.repository("flights").dump_refs(
                tmp_path / "stores" / "other" / "_graveler" / "marker"
            )
        if deleted:
            other = lake.undelete_repository("other")
        assert other.fsck().sound
        assert other.ref("main").get("a") == b"1"


@pytest.mark.parametrize("mounted", ["", "stores", "stores/other", "lake", "lake/objects"])
@pytest.mark.parametrize("below", ["", "sub"])
def test_a_folder_that_is_mounted_twice_is_known(tmp_path, monkeypatch, mounted, below):
    """A second mount has the same inodes. A link is its stand-in, because a mount needs rights."""
    with graveler.init(tmp_path / "lake") as lake:
        other, main = two_repositories(lake, tmp_path / "stores" / "other")
        mount = tmp_path / "mnt" / below / "x" if below else tmp_path / "mnt"
        mount.parent.mkdir(parents=True, exist_ok=True)
        mount.symlink_to(tmp_path / mounted, target_is_directory=True)
        monkeypatch.setattr(os.path, "realpath", os.path.abspath)
        monkeypatch.setattr(Path, "resolve", Path.absolute)
        monkeypatch.setattr(folders, "_is_folder", lambda entry, **_: Path(entry.path).is_dir())
        with pytest.raises(InvalidInputError, match="the lake's"):
            main.download("", tmp_path / "mnt", delete=True)
        monkeypatch.undo()
        assert (other.fsck().sound, other.ref("main").get("a")) == (True, b"1")
        assert main.get("a") == b"1"


def test_a_storage_out_of_reach_stops_no_download(tmp_path, monkeypatch):
    """Another user's repository may be in a folder that this user cannot search."""

    def stat(path, **options):
        if path.is_relative_to(tmp_path / "closed") and path != tmp_path / "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return os.stat(path, **options)  # noqa: PTH116 - what is replaced here

    with graveler.init(tmp_path / "lake") as lake:
        _, main = two_repositories(lake, tmp_path / "closed" / "other")
        monkeypatch.setattr(Path, "stat", stat)
        assert main.download("", tmp_path / "out", delete=True).files == 1
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
    main.commit("imported")
    inode = (landing / "a").stat().st_ino
    assert main.download("in", landing) == Transfer(1, 1, skipped=1)
    assert (landing / "a").stat().st_ino == inode
    assert main.get("in/a") == b"1"
    (landing / "a").write_bytes(b"33")
    with pytest.raises(SourceChangedError):
        main.download("in", landing)
