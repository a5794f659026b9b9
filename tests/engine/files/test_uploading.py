"""Upload of a local folder to a branch: names, links, and skipped, deleted and refused files."""

import errno
import os
import socket
from pathlib import Path
from threading import Event

import pytest

import graveler
from graveler.errors import (
    BackendUnavailableError,
    FencedError,
    InvalidInputError,
    ProtectedBranchError,
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
@pytest.mark.parametrize("threads", [None, 1, 4])
@pytest.mark.parametrize("prefix", ["in", "in/", ""])
def test_a_folder_goes_up_with_all_that_lies_below(repo, folder, threads, prefix):
    main = repo.branch("main")
    (folder / "empty").mkdir()
    done = main.upload(folder, prefix, threads=threads)
    assert done == Transfer(files=6, bytes=5)
    start = "in/" if prefix else ""
    assert tree(main) == {f"{start}{name}": text for name, text in FILES.items()}
    assert main.upload(str(folder), prefix) == Transfer(0, 0, skipped=6)
    main.commit("all")
    assert main.upload(folder, prefix, threads=threads) == Transfer(0, 0, skipped=6)


@everywhere
def test_what_differs_goes_up_and_the_rest_is_skipped(repo, folder):
    main = repo.branch("main")
    main.upload(folder)
    main.commit("all")
    (folder / "a").write_text("9")  # same size, other content
    (folder / "sub/b").write_text("longer")
    (folder / "new").write_text("n")
    before = main.stat("sub.txt")
    assert main.upload(folder) == Transfer(files=3, bytes=8, skipped=4)
    assert tree(main) == {**FILES, "a": "9", "sub/b": "longer", "new": "n"}
    assert main.stat("sub.txt") == before
    assert [change.path for change in main.uncommitted()] == ["a", "new", "sub/b"]


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


def test_replace_uploads_what_is_there_too(repo, folder):
    main = repo.branch("main")
    main.upload(folder)
    main.commit("all")
    entry = main.stat("a")
    repo.stores.objects.put(entry.address, b"damaged")
    assert main.upload(folder).files == 0
    assert main.upload(folder, replace=True).files == 6
    main.commit("repaired")
    assert repo.ref("main").get("a") == b"1"


@everywhere
def test_a_mirror_deletes_what_the_folder_does_not_have(repo, folder):
    main = repo.branch("main")
    main.put_many({"in/old": b"", "in/sub/older": b"", "in/sub": b"", "beside": b"", "inn": b""})
    main.commit("base")
    main.put("in/staged", b"")
    assert main.upload(folder, "in").deleted == 0
    assert main.upload(folder, "in", delete=True) == Transfer(0, 0, skipped=6, deleted=4)
    files = {f"in/{name}": text for name, text in FILES.items()}
    assert tree(main) == {**files, "beside": "", "inn": ""}


def test_what_is_excluded_is_neither_uploaded_nor_deleted(repo, folder):
    main = repo.branch("main")
    main.put_many({"in/sub/kept": b"", "in/x.txt": b"", "in/gone": b""})
    done = main.upload(folder, "in", exclude=["sub", "*.txt", ".*"], delete=True)
    assert (done.files, done.deleted) == (2, 1)
    assert sorted(tree(main)) == ["in/a", "in/größe ü", "in/sub/kept", "in/x.txt"]


def test_links_stand_for_what_they_point_to_or_are_left_out(repo, folder, tmp_path):
    main = repo.branch("main")
    outside = fill(tmp_path / "outside", {"o": "outside"})
    (folder / "link").symlink_to(folder / "a")
    (folder / "sub" / "linked").symlink_to(outside, target_is_directory=True)
    main.upload(folder, "with")
    assert main.get("with/link") == b"1"
    assert main.get("with/sub/linked/o") == b"outside"
    assert main.upload(folder, "without", follow_links=False).files == 6
    assert not main.exists("without/link")


def test_links_to_nowhere_and_in_circles_are_refused_by_name(repo, folder):
    (folder / "broken").symlink_to("nothing")
    (folder / "self").symlink_to("self")
    (folder / "sub" / "up").symlink_to("..", target_is_directory=True)
    main = repo.branch("main")
    with pytest.raises(InvalidInputError) as caught:
        main.upload(folder)
    for said in (
        "'broken': the link leads nowhere",
        "'self': the link",
        "'sub/up': the link leads",
    ):
        assert said in str(caught.value)
    assert tree(main) == {}
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


def test_a_name_that_is_not_utf8_can_be_left_out(repo, folder):
    name = os.fsdecode(b"caf\xe9")
    (folder / name).write_text("1")
    main = repo.branch("main")
    assert main.upload(folder, exclude=[name]).files == 6
    assert repo.branch("main").upload(folder, exclude=["caf?"]).skipped == 6


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
    main = repo.branch("main")
    assert main.upload(folder).files == len(names)
    assert sorted(tree(main)) == sorted(names)
    assert main.download("", tmp_path / "back").files == len(names)
    assert sorted(file.name for file in (tmp_path / "back").iterdir()) == sorted(names)


def test_pipes_and_sockets_are_left_out(repo, folder):
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
    assert repo.branch("main").upload(folder).files == 6


def test_no_folder_is_an_error(repo, folder):
    for place, kind in {"missing": RetryableError, "a": InvalidInputError}.items():
        with pytest.raises(kind, match="no folder"):
            repo.branch("main").upload(folder / place, delete=True)


def test_the_lakes_own_files_are_not_uploaded(repo, tmp_path, folder):
    main = repo.branch("main")
    storage = repo.stores.objects.local_file("data").parent
    for place in (tmp_path, storage / "data"):
        with pytest.raises(InvalidInputError, match="the lake's"):
            main.upload(place)
    assert main.upload(folder).files == 6
    assert tree(main) == FILES


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


def test_an_empty_folder_uploads_nothing(repo, tmp_path):
    (tmp_path / "empty").mkdir()
    assert repo.branch("main").upload(tmp_path / "empty", "in") == Transfer(0, 0)


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
    rewind = folders.SourceFile.rewind
    written: list[int] = []

    def writing(self):
        if self._path.name == "b" and len(written) < times:
            written.append(self._path.write_text("x" * (len(written) + 5)))
        rewind(self)

    monkeypatch.setattr(folders.SourceFile, "rewind", writing)
    main = repo.branch("main")
    if times < 3:
        assert main.upload(folder).files == 6
        assert main.get("sub/b") == b"x" * (times + 4)
        return
    with pytest.raises(
        InvalidInputError, match=r"'sub/b': .* was written while it was read, 3 times"
    ):
        main.upload(folder)
    assert sorted(tree(main)) == sorted(set(FILES) - {"sub/b"})


def test_a_file_whose_writer_sets_the_time_back_is_read_again(repo, folder, monkeypatch):
    read = folders.SourceFile.read
    written: list[object] = []

    def writing(self, size):
        piece = read(self, size)
        if self._path.name == "b" and piece and not written:
            written.append(self._path)
            rewrite(self._path, b"x" * self.size)
        return piece

    monkeypatch.setattr(folders.SourceFile, "read", writing)
    main = repo.branch("main")
    main.upload(folder)
    assert main.get("sub/b") == b"x" * len(FILES["sub/b"])


def test_a_link_to_a_file_without_a_size_says_so(repo, folder):
    (folder / "status").symlink_to("/proc/self/status")
    with pytest.raises(InvalidInputError, match=r"'status': .* below /proc, is put alone"):
        repo.branch("main").upload(folder)


def test_a_file_that_grows_is_not_followed(repo, folder, monkeypatch):
    read, reads = folders.SourceFile.read, []

    def growing(self, size):
        if self._path.name == "b":
            reads.append(size)
            assert len(reads) < 100
            with self._path.open("ab") as file:
                file.write(b"more")
        return read(self, size)

    monkeypatch.setattr(folders.SourceFile, "read", growing)
    main = repo.branch("main")
    with pytest.raises(InvalidInputError, match="was written while it was read, 3 times"):
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

    def refuse(self):
        raise folders.SourceError(PermissionError(13, "Permission denied", str(self._path)))

    monkeypatch.setattr(folders.SourceFile, "__enter__", refuse)
    with pytest.raises(InvalidInputError, match="Permission denied"):
        repo.branch("main").upload(folder, threads=1)


def test_a_protected_branch_reads_no_file(repo, folder):
    repo.protection.add("main", actions=["write"])
    with pytest.raises(ProtectedBranchError):
        repo.branch("main").upload(folder)
    assert list(repo.stores.objects.list("data/")) == []


def test_a_store_that_fails_stops_it_and_a_second_call_goes_on(repo, folder, monkeypatch):
    fill(folder, {f"x{number:02}": str(number) for number in range(50)})
    put = repo.stores.objects.put
    stored: list[str] = []

    def failing(key, body):
        if len(stored) == 20:
            raise BackendUnavailableError("no answer")
        stored.append(key)
        return put(key, body)

    monkeypatch.setattr(repo.stores.objects, "put", failing)
    main = repo.branch("main")
    with pytest.raises(BackendUnavailableError) as caught:
        main.upload(folder)
    assert "no answer; 20 files are staged: upload again to go on" in str(caught.value)
    monkeypatch.undo()
    assert main.upload(folder) == Transfer(files=36, bytes=72, skipped=20)
    assert len(tree(main)) == 56


def test_a_long_file_is_given_up_when_another_one_fails(repo, tmp_path, monkeypatch):
    (tmp_path / "long").mkdir()
    for name in ("bad", "long"):
        (tmp_path / "long" / name).write_bytes(b"x")
    read, begun, put = [0], Event(), repo.stores.objects.put

    def endless(self, size):
        if self._path.name == "bad":
            return b""
        if self._over.is_set():
            raise folders.SourceError(InterruptedError())
        begun.set()
        read[0] += 1
        return b"x" * 1000

    def failing(key, body):
        if body._path.name == "bad":
            assert begun.wait(10)
            raise BackendUnavailableError("no answer")
        return put(key, body)

    monkeypatch.setattr(folders.SourceFile, "read", endless)
    monkeypatch.setattr(repo.stores.objects, "put", failing)
    with pytest.raises(BackendUnavailableError, match="'bad': no answer; nothing is staged"):
        repo.branch("main").upload(tmp_path / "long", threads=2)
    assert read[0]


def test_a_stale_attempt_is_fenced(repo, folder, monkeypatch):
    stale = repo.runs.open("hour")
    sent = folders._Sender.send

    def overtaken(self, job):
        if job.path == "sub/b":
            repo.runs.open("hour")
        return sent(self, job)

    monkeypatch.setattr(folders._Sender, "send", overtaken)
    with pytest.raises(FencedError):
        stale.upload(folder, delete=True)
    assert tree(repo.branch(stale.branch)) == {}


def test_comparing_is_no_input_of_the_run(repo, folder):
    run = repo.runs.open("hour")
    run.upload(folder, "in", delete=True)
    assert run.inputs == ()
    run.commit("all")
    run.publish()
    assert len(tree(repo.ref("main"))) == 6


def test_progress_knows_all_files_from_the_start(repo, folder):
    seen = []
    repo.branch("main").upload(folder, progress=lambda *told: seen.append(told))
    assert seen == [("upload", number, 6) for number in range(1, 7)]
