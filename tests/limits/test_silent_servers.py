"""A server that accepts connections and never answers: every call ends, and the log says why."""

import logging
import select
import socket
import threading
from contextlib import suppress
from importlib import import_module
from time import monotonic
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from graveler.base.retries import NO_PROGRESS_S
from graveler.config import load_config
from graveler.errors import BackendUnavailableError, GravelerError, OutcomeUnknownError
from graveler.kv.registry import open_kv
from graveler.kv.store import ABSENT
from graveler.objects.registry import open_store
from tests.harness.servers import DATABASES

LIMIT_S = 1.0
SLACK_S = 1.5
LEAST_S = 2.0  # psycopg waits at least this long for a connection


class Server:
    """Accepts connections on its own port, and calls `handle` with each."""

    def __init__(self, handle):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        self._handle = handle
        self._open = []
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def taken(self):
        return len(self._open)

    def _serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._open.append(connection)
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        with suppress(OSError, ValueError):
            self._handle(connection)

    def close(self):
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def serve():
    servers = []

    def start(handle=lambda connection: None):
        servers.append(Server(handle))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def _keys(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def bucket(server, limit_s=LIMIT_S):
    return open_store(
        "s3://bucket/p",
        {"endpoint_url": f"http://127.0.0.1:{server.port}", "region": "us-east-1"},
        no_progress_s=limit_s,
    )


CALLS = {
    "put": lambda store: store.put("k", b"content"),
    "get": lambda store: store.get("k"),
    "list": lambda store: list(store.list()),
    "put_if_absent": lambda store: store.put_if_absent("k", b"content"),
}


def test_a_call_ends_after_thirty_seconds_by_default(tmp_path):
    assert NO_PROGRESS_S == 30
    text = 'format = 1\n[kv]\nuri = "mem://"\n[storage]\nuri = "mem://x"\n'
    (tmp_path / "graveler.toml").write_text(text)
    assert load_config(tmp_path).no_progress_s == 30
    (tmp_path / "graveler.toml").write_text(text + "[limits]\nno_progress_seconds = 2.5\n")
    assert load_config(tmp_path).no_progress_s == 2.5


@pytest.mark.parametrize("bad", ["0", "-1", "nan", "1e9", '"soon"', "[]"])
def test_a_limit_that_is_none_is_refused(tmp_path, bad):
    text = 'format = 1\n[kv]\nuri = "mem://"\n[storage]\nuri = "mem://x"\n[limits]\n'
    (tmp_path / "graveler.toml").write_text(f"{text}no_progress_seconds = {bad}\n")
    with pytest.raises(GravelerError):
        load_config(tmp_path)


@pytest.mark.usefixtures("_keys")
@pytest.mark.parametrize("call", CALLS)
def test_an_s3_call_ends_and_says_that_it_repeats(serve, caplog, call):
    server = serve()
    store = bucket(server)
    began = monotonic()
    with caplog.at_level(logging.WARNING), pytest.raises(GravelerError) as caught:
        CALLS[call](store)
    assert isinstance(caught.value, BackendUnavailableError | OutcomeUnknownError)
    assert monotonic() - began < LIMIT_S + SLACK_S
    assert server.taken in {2, 3}
    assert [record.name for record in caplog.records] == ["graveler.retries"] * (server.taken - 1)
    assert "try 2 in" in caplog.text
    assert "s are left" in caplog.text
    store.close()


@pytest.mark.usefixtures("_keys")
def test_calls_at_once_share_the_time(serve):
    store = bucket(serve())
    began = monotonic()
    for _ in range(3):  # like a caller that reads back after a lost reply
        with pytest.raises(BackendUnavailableError):
            store.get("k")
    assert monotonic() - began < LIMIT_S + SLACK_S


@pytest.mark.usefixtures("_keys")
def test_an_upload_that_makes_progress_is_not_cut(serve):
    content = bytes(32 << 20)

    def slow(connection):
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1 << 10)
        assert b"100-continue" not in head
        missing = len(content) - len(head.partition(b"\r\n\r\n")[2])
        pause, begun = threading.Event(), monotonic()
        while missing > 0:
            missing -= len(connection.recv(1 << 14))
            # slow until the limit is over, then fast: the reply to the last byte is immediate
            if monotonic() - begun < 2.5 * LIMIT_S:
                pause.wait(0.005)
        connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 0\r\n\r\n')

    server = serve(slow)
    store = bucket(server, 2 * LIMIT_S)
    began = monotonic()
    assert store.put("k", content).etag == '"e"'
    assert monotonic() - began > 2 * LIMIT_S
    assert server.taken == 1


@pytest.mark.parametrize(
    ("module", "uri"),
    [(module, uri) for module, (_, uri) in DATABASES.items()],
)
@pytest.mark.usefixtures("_keys")
def test_a_database_that_never_answers_is_given_up(serve, caplog, uri, module):
    server = serve()
    limit_s = 2 * LEAST_S if uri.startswith("postgresql") else LIMIT_S
    import_module(f"graveler.kv.drivers.{module}")
    began = monotonic()
    with caplog.at_level(logging.WARNING), pytest.raises(BackendUnavailableError):
        open_kv(uri.format(port=server.port), no_progress_s=limit_s)
    assert monotonic() - began < limit_s + SLACK_S
    assert server.taken in {2, 3}
    assert "try 2 in" in caplog.text


class Between:
    """A proxy of a server. It can become silent while connections are open."""

    def __init__(self, serve, address):
        self.silent = threading.Event()
        self._address = address
        self.port = serve(self._pass_on).port

    def _pass_on(self, connection):
        family = socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET
        with socket.socket(family) as server:
            server.connect(self._address)
            ends = {connection: server, server: connection}
            while True:
                ready, _, _ = select.select(list(ends), [], [], 0.05)
                if self.silent.is_set():
                    continue
                for end in ready:
                    piece = end.recv(1 << 16)
                    if not piece:
                        return
                    ends[end].sendall(piece)


def check_falls_silent(between, store, limit_s):
    store.set("p", b"k", b"v")
    between.silent.set()
    began = monotonic()
    with pytest.raises(BackendUnavailableError):
        store.get("p", b"k")
    assert monotonic() - began < limit_s + SLACK_S
    began = monotonic()
    with pytest.raises(BackendUnavailableError):
        store.get("p", b"k")
    assert monotonic() - began < SLACK_S
    threading.Event().wait(1.1)
    began = monotonic()
    with pytest.raises((BackendUnavailableError, OutcomeUnknownError)):
        store.set_if("p", b"new", b"v", ABSENT)
    assert monotonic() - began < limit_s + LEAST_S + SLACK_S
    store.close()


@pytest.mark.service("postgres")
def test_postgres_that_falls_silent_is_given_up(serve, postgres_socket, postgres_url):
    query = parse_qs(urlsplit(postgres_url).query)
    between = Between(serve, str(postgres_socket / ".s.PGSQL.5432"))
    wanted = urlencode(
        {"options": query["options"][0], "sslmode": "disable", "durability": "server"}
    )
    uri = f"postgresql://postgres@127.0.0.1:{between.port}/postgres?{wanted}"
    check_falls_silent(between, open_kv(uri, no_progress_s=LIMIT_S), LIMIT_S)


@pytest.mark.service("mysql")
def test_mysql_that_falls_silent_is_given_up(serve, mysql_socket, mysql_url):
    between = Between(serve, str(mysql_socket))
    parts = urlsplit(mysql_url)
    uri = f"mysql://root@127.0.0.1:{between.port}{parts.path}?durability=server"
    check_falls_silent(between, open_kv(uri, no_progress_s=LIMIT_S), LIMIT_S)
