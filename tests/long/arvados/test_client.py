"""The Python client of Arvados 3.2.1, in an environment of its own, judges the wire."""

import os
import ssl
import subprocess
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread

import pytest

import graveler
from graveler.collections.collections import Collections
from graveler.keep.files import open_runs
from graveler.keep.manifests import Manifest
from graveler.server.keep.service import KeepServer
from tests.harness.certificates import of_localhost
from tests.long.arvados.api import Api, handler_of

TOKEN = "grav-of-the-tests"
PROGRAMS = Path(__file__).with_name("programs")
ROOT = Path(__file__).parents[3]
VENV = ROOT / ".venv-arvados"


@pytest.fixture
def lake(tmp_path):
    with graveler.init(tmp_path / "lake") as opened:
        opened.keep.create("main")
        yield opened


@pytest.fixture(params=[False, True], ids=["seed", "compat"])
def servers(lake, tmp_path, request):
    opened = [
        KeepServer(lake, "main", [tmp_path / f"volume{at}"], token=TOKEN, compat=request.param)
        for at in range(3)
    ]
    for server in opened:
        lake.keep.add_server("main", server.address)
    yield opened
    for server in opened:
        server.cut()


@pytest.fixture
def environment(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return {"HOME": str(home)}


def test_blocks_survive_a_lost_server_and_a_damaged_copy(lake, servers, environment, tmp_path):
    urls = " ".join(server.address for server in servers)
    command = [VENV / "bin" / "python", PROGRAMS / "blocks.py", urls, TOKEN, tmp_path]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        lines = []
        for line in program.stdout:
            lines.append(line)
            if line == "ready\n":
                break
        copies = sorted(tmp_path.glob("volume*/???/" + "?" * 32))
        assert len(lines) == 5
        assert len(copies) == 6  # two of each block that has bytes
        damaged, other = (file for file in copies if file.name == copies[0].name)
        damaged.write_bytes(b"x" * damaged.stat().st_size)
        [lost] = {"0", "1", "2"} - {str(file.parents[1])[-1] for file in (damaged, other)}
        servers[int(lost)].cut()
        rest, _ = program.communicate("\n")
    assert rest == "read again\n"
    assert program.returncode == 0


def test_a_collection_comes_back(servers, environment):
    urls = " ".join(server.address for server in servers)
    command = [str(VENV / "bin" / "python"), str(PROGRAMS / "manifests.py"), urls, TOKEN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    manifest = Manifest.parse(done.stdout)
    assert sorted(manifest.files()) == ["a b/x:y.txt", "b/empty", "large", "ü"]
    assert manifest.folders() == {"empty folder"}


def test_files_go_through_a_commit(lake, servers, environment, tmp_path):
    source = tmp_path / "source"
    for name, content in {"a.csv": b"a,b\n1,2\n", "b/large": os.urandom(70 << 20)}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    system = lake.keep.get("main")
    collections = Collections(
        lake._kv, "main", system.ttl, clock=lake.keep.clock, ids=lake.keep.ids
    )
    api = Api(collections, system.signer, TOKEN, lake.keep.clock, lambda: lake.keep.servers("main"))
    with _Served(api, tmp_path) as host:
        environment |= {
            "ARVADOS_API_HOST": host,
            "ARVADOS_API_TOKEN": TOKEN,
            "ARVADOS_API_HOST_INSECURE": "1",
        }
        put = _run("arv-put", "--name", "flights", f"{source}/", env=environment)
        uuid = put.stdout.strip()
        main = lake.create_repository("flights", storage="keep://main/flights").branch("main")
        client = lake.keep.client("main")
        stored = Manifest.parse(collections.manifest(collections.get(uuid))).files()
        for path, runs in stored.items():
            with open_runs(client, runs) as file:
                main.put(path, file)
        main.commit("flights of Arvados")
        client.close()
        exported = Manifest.of((entry.path, stored[entry.path]) for entry in main.list())
        made = collections.create(str(exported), name="from graveler", persisted=True)
        (tmp_path / "target").mkdir()
        _run("arv-get", f"{made.uuid}/", f"{tmp_path}/target/", env=environment)
        for path in stored:
            content = (source / path).read_bytes()
            assert main.get(path) == (tmp_path / "target" / path).read_bytes() == content


def _run(program, *arguments, env):
    done = subprocess.run(
        [VENV / "bin" / program, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


class _Served:
    """A stub of the API, served with TLS."""

    def __init__(self, api, folder):
        ThreadingTCPServer.allow_reuse_address = True
        self.server = ThreadingTCPServer(("127.0.0.1", 0), handler_of(api))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*of_localhost(folder))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = Thread(target=self.server.serve_forever, args=(0.05,))

    def __enter__(self):
        self.thread.start()
        return f"localhost:{self.server.server_address[1]}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
