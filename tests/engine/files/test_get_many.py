"""Many files in one call: their order, one version, missing paths, damage, and reading ahead."""

from itertools import islice
from pathlib import PurePosixPath
from threading import Lock

import pytest

from graveler.errors import CorruptionError, InvalidInputError, ObjectNotFoundError
from graveler.gates import gate
from graveler.objects.store import ANYTHING, Expected, ObjectStore
from tests.harness.worlds import ScriptedWorld

everywhere = pytest.mark.parametrize(
    "lake", ["memory-memory", "sqlite-local", "sqlite-s3"], indirect=True
)
PATHS = [f"in/{number:02}" for number in range(30)]


@pytest.fixture
def filled(repo):
    """A branch on which half of the files are committed and half are staged."""
    main = repo.branch("main")
    main.put_many((path, path.encode()) for path in PATHS[::2])
    main.commit("half")
    main.put_many((path, path.encode()) for path in PATHS[1::2])
    return main


@everywhere
@pytest.mark.parametrize("threads", [None, 1])
def test_files_come_in_the_order_of_the_paths(filled, threads):
    wanted = [PATHS[7], *reversed(PATHS), PATHS[7]]
    got = list(filled.get_many(wanted, threads=threads))
    assert [entry.path for entry, _ in got] == wanted
    assert [content for _, content in got] == [path.encode() for path in wanted]
    assert got[0][0] == filled.stat(PATHS[7])
    entries = list(filled.entries("in/"))
    filled.put(PATHS[3], b"written since")
    contents = [content for _, content in filled.get_many(iter(entries), threads=threads)]
    assert contents == [path.encode() for path in PATHS]


def test_paths_may_be_path_objects_and_a_reader_may_stop(filled):
    got = filled.get_many((PurePosixPath(path) for path in PATHS), threads=4)
    assert [content for _, content in islice(got, 3)] == [b"in/00", b"in/01", b"in/02"]
    assert list(filled.get_many([])) == []


def test_missing_paths_are_all_named_before_any_file_is_read(filled):
    gone = [f"gone/{number}" for number in range(7)]
    with pytest.raises(ObjectNotFoundError, match=r"'gone/0'.*'gone/4' and 2 more in 'main'"):
        filled.get_many([*PATHS, *gone])
    got = list(filled.get_many([*gone, PATHS[4], "gone/7"], missing="skip"))
    assert [content for _, content in got] == [b"in/04"]
    filled.delete(PATHS[0])
    with pytest.raises(ObjectNotFoundError, match=r"in/00.* in 'main'"):
        filled.get_many(PATHS)


def test_paths_and_entries_are_not_mixed(filled):
    entry = filled.stat(PATHS[0])
    with pytest.raises(InvalidInputError, match="give paths, or entries"):
        filled.get_many([PATHS[0], entry])
    with pytest.raises(InvalidInputError, match="give paths, or entries"):
        list(filled.get_many([entry, PATHS[0]]))


@pytest.mark.parametrize("threads", [1, 4])
def test_damage_is_raised_in_its_turn(repo, filled, threads):
    entry = filled.stat(PATHS[5])
    repo.stores.objects.put(entry.address, b"in/0X")
    got = []
    with pytest.raises(CorruptionError, match=PATHS[5]):
        got.extend(filled.get_many(PATHS, threads=threads))
    assert len(got) == 5
    repo.stores.objects.delete(entry.address)
    with pytest.raises(ObjectNotFoundError, match=PATHS[5]):
        list(filled.get_many(PATHS, threads=threads))


class Counting:
    """Counts the bytes of objects that are read but not yet taken."""

    def __init__(self, store: ObjectStore):
        self._get = store.get
        self._lock = Lock()
        self.ahead = self.most = 0
        store.get = self.get  # type: ignore[method-assign]  # of this store only

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        content = self._get(key, expected)
        with self._lock:
            self.ahead += len(content)
            self.most = max(self.most, self.ahead)
        return content


def test_what_is_read_ahead_is_bounded(repo):
    main = repo.branch("main")
    main.put_many((f"{number:03}", b"x" * 1000) for number in range(100))
    counting = Counting(repo.stores.objects)
    for _, content in main.get_many([f"{number:03}" for number in range(100)], threads=4):
        counting.ahead -= len(content)
    assert counting.most <= 17_000


def test_all_paths_are_of_one_commit_and_what_is_staged_on_it():
    """A commit between any two calls does not mix files of two commits."""
    for number in range(1, 60):
        world = ScriptedWorld()
        other = world.repo(scripted=False).branch("main")
        other.put_many({"a": b"1", "b": b"1"}, threads=1)
        other.commit("1")
        main = world.repo().branch("main")

        def moves(_, other=other):
            other.put_many({"a": b"2", "b": b"2"}, threads=1)
            other.commit("2")

        world.script.arm(number, moves)
        contents = [content for _, content in main.get_many(["a", "b"], threads=1)]
        if not world.script.disarm():
            break
        assert contents in ([b"1", b"1"], [b"2", b"2"]), number
    assert number > 4


def test_a_run_notes_what_it_reads_by_folders(repo, filled, tmp_path):
    filled.commit("all")
    for read in (
        lambda view: list(view.get_many(PATHS[:3])),
        lambda view: view.download("in", tmp_path / "there"),
    ):
        run = repo.runs.open("hour")
        read(run.view())
        assert {item.prefix for item in run.inputs} == {"in/"}


def test_a_gate_reads_many_files_of_what_it_declares(repo):
    seen: list[bytes] = []

    @gate(prefix="in/")
    def reads(candidate):
        entries = [change.after for change in candidate.changes("in/")]
        seen.extend(content for _, content in candidate.get_many(entries))

    with repo.run("hour", gates=[reads]) as run:
        run.put_many((path, path.encode()) for path in PATHS[:4])
    assert seen == [path.encode() for path in PATHS[:4]]
