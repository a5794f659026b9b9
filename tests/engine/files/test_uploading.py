"""Upload of a local folder to a branch: names, links, and skipped, deleted and refused files."""

import errno
import os
import socket
from pathlib import Path

import pytest

import graveler
from graveler.errors import (
    InvalidInputError,
    RetryableError,
)
from graveler.model import Transfer
from graveler.repository.writes import folders
from tests.engine.files.folders import FILES, everywhere, rewrite
from tests.harness.worlds import tree


def fill(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path / "source", FILES)


@everywhere
@pytest.mark.parametrize("threads", [None, 1])
def test_what_differs_goes_up_and_the_rest_is_skipped(repo, folder, threads):
    main = repo.branch("main")
    (folder / "empty").mkdir()
    assert main.upload(folder, "in", threads=threads) == Transfer(files=6, bytes=5)
    assert tree(main) == {f"in/{name}": text for name, text in FILES.items()}
    assert main.upload(str(folder), "in/") == Transfer(0, 0, skipped=6)
    main.commit("all")
    (folder / "a").write_text("9")  # same size, other content
    (folder / "sub/b").write_text("longer")
    (folder / "new").write_text("n")
    before = main.stat("in/sub.txt")
    assert main.upload(folder, "in", threads=threads) == Transfer(files=3, bytes=8, skipped=4)
    files = {**FILES, "a": "9", "sub/b": "longer", "new": "n"}
    assert tree(main) == {f"in/{name}": text for name, text in files.items()}
    assert main.stat("in/sub.txt") == before
    assert [change.path for change in main.uncommitted()] == ["in/a", "in/new", "in/sub/b"]


def test_a_checksum_that_was_not_computed_is_not_trusted(repo, folder, tmp_path):
    main = repo.branch("main")
    repo.links.allow(str(tmp_path / "elsewhere"))
    other = fill(tmp_path / "elsewhere", {"a": "x"}) / "a"
    checksum = main.put("other", b"1").checksum
    main.link("a", address=str(other), checksum=checksum)
    assert main.upload(folder, exclude=["*[!a]"]) == Transfer(files=1, bytes=1)
    assert main.get("a") == b"1"


def test_media_type_and_pairs_count_where_they_are_given(repo, folder):
    main = repo.branch("main")
    main.upload(folder, content_type="text/plain", metadata={"k": "1"})
    assert main.stat("a").content_type == "text/plain"
    assert main.upload(folder).files == 0
    assert main.upload(folder, content_type="text/plain", metadata={"k": "1"}).files == 0
    assert main.upload(folder, metadata={"k": "2"}).files == 6
    assert main.stat("a").metadata == {"k": "2"}
    assert main.upload(folder, content_type="text/csv").files == 6
    assert main.upload(folder, metadata={}).skipped == 6
    repo.stores.objects.put(main.stat("a").address, b"damaged")
    assert main.upload(folder, replace=True).files == 6
    assert main.get("a") == b"1"


def test_links_stand_for_what_they_point_to_or_are_left_out(repo, folder, tmp_path):
    main = repo.branch("main")
    fill(tmp_path / "outside", {"o": "outside"})
    (folder / "link").symlink_to(folder / "a")
    (folder / "sub" / "linked").symlink_to(tmp_path / "outside", target_is_directory=True)
    main.upload(folder, "with")
    linked = {"with/link": "1", "with/sub/linked/o": "outside"}
    assert tree(main).items() >= linked.items()
    assert main.upload(folder, "without", follow_links=False).files == 6


@pytest.mark.parametrize(
    ("link", "target", "said"),
    [
        ("broken", "nothing", "the link leads nowhere"),
        ("self", "self", "the link"),
        ("sub/up", "..", "the link leads"),
        ("status", "/proc/self/status", ".* below /proc, is put alone"),
    ],
)
def test_links_to_nowhere_and_in_circles_are_refused_by_name(repo, folder, link, target, said):
    (folder / link).symlink_to(target)
    main = repo.branch("main")
    with pytest.raises(InvalidInputError, match=f"'{link}': {said}"):
        main.upload(folder)
    main.reset()
    assert main.upload(folder, follow_links=False).files == 6


def test_bad_names_are_all_in_the_error_and_nothing_goes_up(repo, folder):
    raw = os.fsencode(folder)
    for name in (b"bad\xff", b"sub/\xfe\xfd"):
        Path(os.fsdecode(raw + b"/" + name)).write_bytes(b"x")
    main = repo.branch("main")
    with pytest.raises(InvalidInputError) as caught:
        main.upload(folder, "x" * 1000)
    assert "bad\\udcff" in str(caught.value)
    assert "sub/\\udcfe\\udcfd" in str(caught.value)
    assert "nothing was" in str(caught.value)
    with pytest.raises(InvalidInputError, match=r"path of 10.. bytes"):
        main.upload(folder, "x" * 1020)
    assert list(repo.stores.objects.list("data/")) == []
    assert main.upload(folder, exclude=["bad*", "sub/[!bd]*"]).files == 6


def test_odd_names_that_are_paths_go_up(repo, tmp_path):
    names = [
        "a:b:c",
        "two words",
        "-dash",
        "back\\slash",
        "new\nline",
        "日本語",
        "a?*[x]",
        "~",
        "...",
    ]
    folder = fill(tmp_path / "odd", dict.fromkeys(names, "x"))
    os.mkfifo(folder / "pipe")  # pipes and sockets are left out
    main = repo.branch("main")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        assert main.upload(folder).files == len(names)
    assert sorted(tree(main)) == sorted(names)
    no_utf8 = os.fsdecode(b"caf\xe9")
    (folder / no_utf8).write_text("1")
    for excluded in (no_utf8, "caf?"):
        assert main.upload(folder, exclude=[excluded]).skipped == len(names)


def test_no_folder_is_an_error_and_an_empty_one_is_none(repo, folder):
    for place, kind in {"missing": RetryableError, "a": InvalidInputError}.items():
        with pytest.raises(kind, match="no folder"):
            repo.branch("main").upload(folder / place, delete=True)
    (folder / "empty").mkdir()
    assert repo.branch("main").upload(folder / "empty", "in") == Transfer(0, 0)


@pytest.mark.parametrize("target", [".", "lake", "lake/graveler.toml", "lake/kv.sqlite3"])
def test_a_link_to_the_lakes_own_files_is_not_followed(tmp_path, folder, target):
    with graveler.init(tmp_path / "lake") as lake:
        main = lake.create_repository("flights").branch("main")
        link = folder / "sub" / "link"
        link.symlink_to(tmp_path / target)
        with pytest.raises(InvalidInputError, match=r"'sub/link': .* the lake's own files"):
            main.upload(folder)
        assert tree(main) == {}
        assert main.upload(folder, exclude=["sub/link"]).files == 6
        assert main.upload(folder, follow_links=False).skipped == 6


@pytest.mark.parametrize("threads", [1, 4])
def test_a_file_that_vanishes_does_not_stop_the_others(repo, folder, monkeypatch, threads):
    opened = folders.SourceFile.__enter__

    def vanishing(self):
        if self._path.name == "b":
            self._path.unlink()
        return opened(self)

    monkeypatch.setattr(folders.SourceFile, "__enter__", vanishing)
    main = repo.branch("main")
    main.put("in/kept", b"")
    with pytest.raises(RetryableError) as caught:
        main.upload(folder, "in", threads=threads, delete=True)
    assert "'in/sub/b': No such file or directory" in str(caught.value)
    assert "5 others are staged, 0 were there: upload again" in str(caught.value)
    assert len(tree(main)) == 6  # an incomplete mirror deletes nothing
    assert main.upload(folder, "in", delete=True) == Transfer(0, 0, skipped=5, deleted=1)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_file_that_is_written_while_it_is_read_is_read_again(repo, folder, monkeypatch, times):
    """Its size and its time are as they were."""
    read = folders.SourceFile.read
    written: list[Path] = []

    def writing(self, size):
        piece = read(self, size)
        if self._path.name == "b" and piece and len(written) < times:
            written.append(self._path)
            rewrite(self._path, b"%d" % len(written))
        return piece

    monkeypatch.setattr(folders.SourceFile, "read", writing)
    main = repo.branch("main")
    if times < 3:
        assert main.upload(folder).files == 6
        assert main.get("sub/b") == b"%d" % times
        return
    with pytest.raises(
        InvalidInputError, match=r"'sub/b': .* was written while it was read, 3 times"
    ):
        main.upload(folder)
    assert sorted(tree(main)) == sorted(set(FILES) - {"sub/b"})


def test_a_folder_that_does_not_answer_may_do_so_later(repo, folder, monkeypatch):
    scan = os.scandir

    def stale(path):
        if Path(path).name == "sub":
            raise OSError(errno.ESTALE, "Stale file handle")
        return scan(path)

    monkeypatch.setattr(os, "scandir", stale)
    with pytest.raises(RetryableError, match=r"sub' cannot be read: Stale file handle"):
        repo.branch("main").upload(folder)


def test_too_many_bad_files_end_the_call(repo, folder, monkeypatch):
    monkeypatch.setattr(folders, "MOST_FAULTS", 2)
    fill(folder, {f"x{number}": "x" for number in range(50)})
    seen: list[Path] = []

    def refuse(self):
        seen.append(self._path)
        raise folders.SourceError(PermissionError(13, "Permission denied", str(self._path)))

    monkeypatch.setattr(folders.SourceFile, "__enter__", refuse)
    with pytest.raises(InvalidInputError, match="Permission denied"):
        repo.branch("main").upload(folder, threads=1)
    assert len(seen) < 10


def test_comparing_is_no_input_of_the_run_and_progress_knows_all(repo, folder):
    seen = []
    run = repo.runs.open("hour")
    run.upload(folder, "in", delete=True, progress=lambda *told: seen.append(told))
    assert seen == [("upload", number, 6) for number in range(1, 7)]
    assert run.inputs == ()
    run.commit("all")
    run.publish()
    assert len(tree(repo.ref("main"))) == 6


def test_an_imported_folder_that_comes_back_is_there(tmp_path, folder):
    """An import knows no checksums: the bytes of files of the same size are compared."""
    with graveler.init(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        repo.links.allow(str(folder))
        main = repo.branch("main")
        main.import_(folder, "in/")
        main.commit("an import")
        assert not any(entry.checksum for entry in main.entries("in/"))
        main.download("in/", tmp_path / "copy")
        assert main.upload(tmp_path / "copy", "in/") == Transfer(0, 0, skipped=6)
        assert list(main.uncommitted()) == []
        (tmp_path / "copy/a").write_text("9")  # of the same size
        rewrite(
            folder / "sub/b", b"x" * (folder / "sub/b").stat().st_size
        )  # what was imported is no longer there
        done = main.upload(tmp_path / "copy", "in/")
        assert [change.path for change in main.uncommitted()] == ["in/a", "in/sub/b"]
        assert (done.files, done.skipped) == (2, 4)
