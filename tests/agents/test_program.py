"""``graveler mcp`` as a program, by its standard input and output."""

import signal
import subprocess
import sys
from typing import Any

import pytest
from mcp import StdioServerParameters

from graveler import checks
from graveler.lake.factory import init
from graveler.lake.factory import open as open_lake
from tests.harness.agents import Refused, agent_of
from tests.harness.commands import cli  # noqa: F401 - a fixture
from tests.harness.programs import ROOT


@pytest.fixture
def folder(tmp_path):
    with init(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        main = repo.branch("main")
        main.put("input/a.csv", b"carrier,delay\nUA,2\n")
        main.commit("first")
        repo.gates.require("main", checks.sql("select * from 'input/' where delay < -120"))
    return tmp_path / "lake"


def program(folder, *options):
    """Return the command, in which any warning is an error."""
    command = ["-W", "error", "-m", "graveler", "mcp", "-C", str(folder), *options]
    return StdioServerParameters(command=sys.executable, args=command, cwd=ROOT)


def test_an_agent_reads_is_refused_corrects_and_publishes(folder):
    with agent_of(program(folder)) as agent:
        assert agent.query(sql="select * from 'input/'")["rows"] == [["UA", 2]]
        agent.put_text(path="input/b.csv", text="carrier,delay\nAA,5\n")
        agent.commit(message="b")
        assert not agent.check()["refused"]
        with pytest.raises(Refused, match=r"graveler\.toml") as refused:
            agent.publish(message="b")
        assert refused.value.code == "permission-denied"

    with (folder / "graveler.toml").open("a") as settings:
        settings.write('\n[agents]\npublish = ["flights:main"]\n')
    with agent_of(program(folder, "--ttl", "2d")) as agent:
        agent.put_text(path="input/b.csv", text="carrier,delay\nAA,-500\n")
        agent.commit(message="b")
        with pytest.raises(Refused, match="delay=-500"):
            agent.publish(message="b")
        agent.put_text(path="input/b.csv", text="carrier,delay\nAA,5\n")
        agent.commit(message="b, corrected")
        agent.publish(message="b, corrected")
        branch = agent.status()["branch"]

    with open_lake(folder) as lake:
        repo = lake.repository("flights")
        assert repo.ref("main").get("input/b.csv") == b"carrier,delay\nAA,5\n"
        assert repo.log("main", limit=1).__next__().message == "b, corrected"
        assert repo.stores.refs.branches.get(branch).ends is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_that_waits_for_input(folder, number):
    given = program(folder)
    process: Any = subprocess.Popen(
        [given.command, *given.args],
        cwd=given.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    process.stdin.flush()
    assert '"id":1' in process.stdout.readline()
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    process.communicate()


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["--base", "nix"], "no branch, tag or commit 'nix'", 1),
        (["--into", "nix"], "no branch 'nix'", 1),
        (["-R", "nix"], "no repository 'nix'", 1),
        (["--ttl", "soon"], "ttl 'soon'", 2),
    ],
)
def test_options_that_name_nothing_end_the_program(folder, cli, options, message, code):  # noqa: F811
    said = cli("mcp", "-C", folder, *options)
    assert said.code == code
    assert message in said.err
