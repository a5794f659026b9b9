"""``refs dump`` and ``refs restore``."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def dumped(cli, history, tmp_path):
    said = cli("refs", "dump", tmp_path / "refs", "--json").json
    assert said == {"repository": "flights", "commits": 3, "branches": 2, "tags": 1}
    return tmp_path / "refs"


def test_a_dump_goes_into_a_repository_of_another_name(cli, folder, history, dumped):
    restore = ("refs", "restore", dumped, "-R", "trains", "--take-over", "--storage")
    assert "storage of repository 'flights' already" in cli(*restore, history.storage).err
    shutil.copytree(folder / "objects" / "flights", folder / "copy")
    assert cli(*restore, folder / "copy").code == 0
    assert (
        cli("ls", "-r", "main", "-R", "trains").out == cli("ls", "-r", "main", "-R", "flights").out
    )


def test_a_restore_names_the_refs_that_it_left_out(cli, lake, folder, history, tmp_path):
    main = history.branch("main")
    main.put("c", b"lost")
    main.commit("only main has it")
    history.tags.create("v2")
    cli("refs", "dump", tmp_path / "refs")
    Path(history.stores.uri(main.stat("c").address).removeprefix("file://")).unlink()
    lake.close()
    (folder / "kv.sqlite3").unlink()
    restore = ("refs", "restore", tmp_path / "refs", "--take-over")
    assert "--missing 1" in cli(*restore).err
    assert cli(*restore, "--missing", "1").out == (
        "restored 4 commits, 1 branches and 1 tags into flights\n"
        "left out, because parts of their trees are missing: branch 'main', tag 'v2'\n"
    )
    again = cli(*restore, "--missing", "1", "--json").json
    assert (again["branches"], again["tags"]) == (1, 1)
    assert again["left_out"] == {"branches": ["main"], "tags": ["v2"]}
