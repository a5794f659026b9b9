"""A killed upload and a killed download are resumed where they ended."""

import sys
from subprocess import PIPE, Popen

import pytest

import graveler
from tests.harness.worlds import tree

KILLED = """
import sys
import graveler
from graveler.repository.writes import uploads

uploads._CHUNK = 7
lake = graveler.open(sys.argv[1])
branch = lake.repository("flights").branch("main")
if sys.argv[3] == "in":
    branch.upload(sys.argv[2], "in", threads=4, progress=lambda *told: print(*told, flush=True))
else:
    branch.download("in", sys.argv[2], threads=4, progress=lambda *told: print(*told, flush=True))
"""
FILES = {f"part-{number:03}": f"{number}" * 50 for number in range(100)}


def local(folder):
    if not folder.exists():
        return {}
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.mark.parametrize("after", [1, 60])
def test_a_killed_upload_and_a_killed_download_are_resumed(tmp_path, after):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name, text in FILES.items():
        (source / name).write_text(text)
    with graveler.init(tmp_path / "lake") as lake:
        lake.create_repository("flights")
    kill(after, tmp_path / "lake", source, "in")
    with graveler.open(tmp_path / "lake") as lake:
        main = lake.repository("flights").branch("main")
        staged = tree(main)
        acknowledged = (after - 1) // 7 * 7
        assert len(staged) >= acknowledged
        assert staged.items() <= {f"in/{name}": text for name, text in FILES.items()}.items()
        done = main.upload(source, "in")
        assert (done.files, done.skipped) == (len(FILES) - len(staged), len(staged))
        main.commit("all")
    kill(after, tmp_path / "lake", target, "out")
    with graveler.open(tmp_path / "lake") as lake:
        whole = {name: text for name, text in local(target).items() if not name.startswith(".")}
        assert len(whole) >= after
        assert whole.items() <= FILES.items()
        done = lake.repository("flights").ref("main").download("in", target)
        assert done.skipped == len(whole)
        assert local(target) == FILES


def kill(after, *arguments):
    """Kill the program when it has reported `after` files."""
    call = [sys.executable, "-c", KILLED, *map(str, arguments)]
    with Popen(call, stdout=PIPE) as program:
        for line in program.stdout or ():
            if int(line.split()[1]) >= after:
                program.kill()
                break
        program.wait(60)
        assert program.returncode == -9
