"""Collection over a key-value store that was restored from a backup."""

import shutil
from datetime import timedelta

import pytest

import graveler
from graveler.errors import ExpiredError, StateError
from graveler.fsck.check import fsck
from graveler.gc.marks import MarkState
from tests.harness.gc_lakes import NOW, check_sound, commit, keys

WINDOW = timedelta(seconds=0)


class Restored:
    """A lake whose key-value store was backed up while a mark waited, and restored after its sweep.

    Args:
        folder: The folder of the lake.
        state: The state of the mark in the backup.
    """

    def __init__(self, folder, state):
        self.folder = folder
        with graveler.init(folder) as lake:
            repo = lake.create_repository("flights")
            commit(repo, "main", "old", a="0")
            commit(repo, "main", "base", a="1")
            repo.gc.keep("main", count=1)
            self.lost = commit(repo, "dev", "gone", a="2", b="3").id
            repo.delete_branch("dev")
            self.mark = repo.gc.mark(grace=NOW, window=WINDOW).id
            if state is MarkState.SWEEPING:
                repo.gc._marks.move(self.mark, (MarkState.CONDEMNED,), lambda _: _swept(_, state))
        shutil.copyfile(folder / "kv.sqlite3", folder / "backup")

    def sweep_elsewhere(self):
        """Sweep the mark, then replace the key-value store with the backup."""
        with graveler.open(self.folder) as lake:
            swept = lake.repository("flights").gc.sweep(self.mark)
            assert swept.state is MarkState.SWEPT
            assert swept.bytes_freed
        shutil.copyfile(self.folder / "backup", self.folder / "kv.sqlite3")
        with graveler.open(self.folder) as lake:
            lake.accept("flights")


def _swept(mark, state):
    from dataclasses import replace

    return replace(mark, state=state)


@pytest.fixture(params=[MarkState.CONDEMNED, MarkState.SWEEPING])
def restored(request, tmp_path):
    made = Restored(tmp_path / "lake", request.param)
    made.sweep_elsewhere()
    return made


@pytest.fixture
def repo(restored):
    with graveler.open(restored.folder) as lake:
        yield lake.repository("flights")


def test_a_mark_whose_sweep_is_forgotten_blocks_no_collection(restored, repo):
    before = keys(repo)
    new, *others = repo.gc.run(grace=NOW, window=WINDOW)
    assert (new.state, [(each.id, each.state) for each in others]) == (
        MarkState.SWEPT,
        [(restored.mark, MarkState.LOST)],
    )
    assert keys(repo) == before
    assert "does not know" in str(_raised(StateError, lambda: repo.gc.undelete(restored.mark)))
    assert repo.gc.sweep(restored.mark).state is MarkState.LOST
    check_sound(repo)
    commit(repo, "dev", "again", a="2", b="3")
    repo.delete_branch("dev")
    (again,) = repo.gc.run(grace=NOW, window=WINDOW)
    assert again.bytes_freed
    check_sound(repo)


def test_history_removed_by_the_forgotten_sweep_is_expired(restored, repo):
    for _ in range(2):
        report = fsck(repo.stores, objects="checksum")
        assert (report.problems, report.expired) == ((), 1)
        assert restored.mark in str(_raised(ExpiredError, lambda: repo.ref("main~1")))
        assert [one.message for one in repo.log("main")] == [
            "base",
            "old",
            "Repository created",
        ]
        repo.gc.run(grace=NOW, window=WINDOW)


def test_a_commit_condemned_by_such_a_mark_is_expired(restored, repo):
    for _ in range(2):
        for read in (
            lambda: repo.ref(restored.lost),
            lambda: list(repo.diff("main", restored.lost)),
            lambda: repo.create_branch("dev", restored.lost),
            lambda: repo.merge(restored.lost, into="main"),
        ):
            assert restored.mark in str(_raised(ExpiredError, read))
        repo.gc.run(grace=NOW, window=WINDOW)


def _raised(kind, call):
    with pytest.raises(kind) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("whole", [False, True])
def test_a_tree_made_again_counts_with_all_its_ranges_and_files(tmp_path, whole):
    made = Restored(tmp_path / "lake", MarkState.CONDEMNED)
    folder = made.folder / "objects" / "flights"
    with graveler.open(made.folder) as lake:
        tree = f"_graveler/{lake.repository('flights').ref(made.lost).commit.metarange}"
    files = [path for kind in ("_graveler", "data") for path in (folder / kind).rglob("*")]
    held = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.is_file() and "gc" not in path.parts
    }
    made.sweep_elsewhere()
    back = [name for name in held if not (folder / name).exists()]
    assert tree in back
    assert len(back) > 1
    for name in back if whole else [tree]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(held[name])
    with graveler.open(made.folder) as lake:
        repo = lake.repository("flights")
        repo.gc.run(grace=NOW, window=timedelta(days=1))
        if whole:
            assert repo.create_branch("dev", made.lost).head.id == made.lost
        else:
            assert made.mark in str(
                _raised(ExpiredError, lambda: repo.create_branch("dev", made.lost))
            )
