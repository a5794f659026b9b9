"""A storage whose volume is not mounted is detected before anything is written to the folder."""

import shutil

import pytest

import graveler
from graveler.config import CONFIG_NAME
from graveler.errors import BackendUnavailableError
from tests.harness.commands import cli  # noqa: F401 - a fixture


@pytest.fixture
def mount(tmp_path):
    (tmp_path / "mount").mkdir()
    return tmp_path / "mount"


@pytest.fixture
def location(tmp_path, mount):
    """A lake with its objects on a separate volume, and with one published run."""
    graveler.init(tmp_path / "lake").close()
    file = tmp_path / "lake" / CONFIG_NAME
    file.write_text(file.read_text().replace("file://objects", f"file://{mount}/objects"))
    with graveler.open(file) as lake, lake.create_repository("flights").run("one") as run:
        run.put("a", b"1")
    return file


@pytest.fixture
def away(mount):
    """A context without the volume."""
    kept = mount.with_name("kept")

    class Away:
        def __enter__(self):
            mount.rename(kept)
            mount.mkdir()

        def __exit__(self, *_):
            self.left = sorted(path.name for path in mount.rglob("*"))
            shutil.rmtree(mount)
            kept.rename(mount)

    return Away()


def publish(lake, key):
    with lake.repository("flights").run(key) as run:
        run.put("b", b"2")


def test_a_process_that_starts_without_the_volume_writes_nothing(location, away):
    with away, graveler.open(location) as lake:
        with pytest.raises(BackendUnavailableError, match="Is its volume mounted"):
            lake.repository("flights")
    assert away.left == []
    with graveler.open(location) as lake:
        publish(lake, "two")
        assert lake.repository("flights").ref("main").get("b") == b"2"


def test_a_process_that_loses_the_volume_writes_nothing(location, away):
    with graveler.open(location) as lake:
        publish(lake, "two")
        branch = lake.repository("flights").create_branch("dev")
        with away, pytest.raises(BackendUnavailableError, match="not mounted any more"):
            branch.put("c", b"3")
        assert away.left == []
        assert [entry.path for entry in branch.list()] == ["a", "b"]
        branch.put("c", b"3")
        branch.commit("after")
    with graveler.open(location) as lake:
        assert lake.repository("flights").ref("dev").get("c") == b"3"


def test_a_storage_that_is_lost_can_be_accepted(location, away, cli):  # noqa: F811
    with away:
        said = cli("--lake", location, "log")
        assert said.code
        assert "Is its volume mounted" in said.err
        assert "accept" not in said.err
        said = cli("--lake", location, "repo", "accept")
        assert said.code
        assert "`--missing 2`" in said.err
        assert cli("--lake", location, "repo", "accept", "--missing", "2").code == 0
        assert cli("--lake", location, "log").code == 0
        with graveler.open(location) as lake:
            lake.repository("flights").branch("main").put("d", b"4")
