"""Files of a lake are private to their user, for any umask."""

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import graveler
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError
from graveler.lake.factory import write_default_config
from tests.harness.gc_lakes import NOW
from tests.harness.programs import output_of


@pytest.fixture(params=[0o000, 0o022], ids=["umask 000", "umask 022"])
def folder(request, tmp_path):
    before = os.umask(request.param)
    yield tmp_path / "above" / "lake"
    os.umask(before)


def others_may(path):
    """Return the permissions of other users."""
    return stat.S_IMODE(path.lstat().st_mode) & 0o077


def test_files_are_the_users_alone(folder):
    with graveler.init(folder) as lake:
        repo = lake.create_repository("flights", splitting=Splitting(raggedness=3))
        with repo.run("one") as run:
            for number in range(20):
                run.put(f"a/{number}", b"1")
        repo.gc.mark(grace=NOW, window=NOW)
        list(repo.ref("main").list())
        there = sorted(folder.rglob("*"))
        names = {path.name for path in there}
        assert {"graveler.toml", "kv.sqlite3", "kv.sqlite3-wal", "kv.sqlite3-shm", "cache"} <= names
        assert [str(path) for path in (folder.parent, folder, *there) if others_may(path)] == []
    with graveler.open(folder) as lake:  # another cache, filled from the objects
        lake.repository("flights").branch("main").put("b", b"2")
    assert [str(path) for path in folder.rglob("*") if others_may(path)] == []


@pytest.mark.service("s3")
def test_a_cache_filled_from_elsewhere_is_the_users_alone(folder, s3_bucket, s3_settings):
    file = write_default_config(folder, storage_uri=f"s3://{s3_bucket}/private")
    file.write_text(f"{file.read_text('utf-8')}\n[s3]\n{s3_settings}", "utf-8")
    with graveler.open(folder) as lake:
        main = lake.create_repository("flights").branch("main")
        main.put("a", b"1")
        main.commit("one")
    for table in (folder / "cache").rglob("*"):
        if table.is_file():
            table.unlink()
    with graveler.open(folder) as lake:
        assert lake.repository("flights").ref("main").get("a") == b"1"
    assert [str(path) for path in folder.rglob("*") if others_may(path)] == []


def test_a_folder_that_is_there_keeps_its_rights(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o775)
    graveler.init(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o775
    assert others_may(folder / "graveler.toml") == 0


GROUP = 20_001


def works(folder, user, kv):
    """Return what one user of the group prints."""
    return output_of("engine.storage.programs.shared_lake", folder, user, GROUP, kv)


@pytest.fixture
def groups_folder():
    """A folder of the group. Pytest's own folders are private again when another pytest starts."""
    with TemporaryDirectory() as above:
        Path(above).chmod(0o711)
        folder = Path(above) / "lake"
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, 10_001, GROUP)
        yield folder


@pytest.mark.parametrize(
    ("kv", "late"),
    [("sqlite://kv.sqlite3", True), ("rocksdb://kv", False)],
    ids=["later", "from the start"],
)
def test_users_of_a_group_share_a_lake(groups_folder, kv, late):
    folder, group = groups_folder, groups_folder.stat().st_gid
    file = write_default_config(folder, kv_uri=kv, group=not late)
    if os.geteuid() == 0:
        os.chown(file, 10_001, 10_001)
    if late:
        works(folder, 10_001, kv)
        assert {others_may(path) for path in folder.rglob("*") if path.is_file()} <= {0, 0o44}
        file.write_text(f"{file.read_text()}\n[access]\ngroup = true\n")
    assert works(folder, 10_001, kv) == "by/10001\n"
    for user, names in ((10_002, "by/10001 by/10002\n"), (10_001, "by/10001 by/10002\n")):
        assert works(folder, user, kv) == names
    assert others_may(file) == 0o040
    for path in folder.rglob("*"):
        assert path.stat().st_gid == group, path
        assert path.is_file() or path.stat().st_mode & 0o2077 == 0o2070, path
        assert path.parent.name == "kv" or path == file or others_may(path) in {0o060, 0o070}, path


def test_an_unknown_value_of_group_is_refused(folder):
    graveler.init(folder).close()
    file = folder / "graveler.toml"
    file.write_text(f"{file.read_text()}\n[access]\ngroup = 'staff'\n")
    with pytest.raises(InvalidInputError, match="group = 'staff': give true or false"):
        graveler.open(folder)
