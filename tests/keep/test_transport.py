"""HTTP to a Keep server: kept connections, forks, TLS, and answers without bounds."""

import os
import socket
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from graveler.errors import BackendUnavailableError, InvalidInputError, PermissionDeniedError
from graveler.keep.locators import Locator
from graveler.keep.transport import Request, Server, Transport
from graveler.testing.clock import FakeClock
from tests.harness.threads import raced
from tests.harness.wires import free_port
from tests.keep.stub import DRIP, SHORT, stub_servers

FOO = Locator.of(b"foo")
GET = Request("GET", f"/{FOO}", {})


@pytest.fixture
def server(servers):
    servers[0].blocks[FOO.digest] = b"foo"
    servers[0].connections.clear()
    return servers[0]


@pytest.fixture
def transport():
    made = Transport("token", clock=FakeClock(), silence_s=0.3)
    yield made
    made.close()


def test_a_connection_is_kept(transport, server):
    for _ in range(3):
        assert transport.send(server.server, GET).body == b"foo"
    put = Request("PUT", f"/{FOO.digest}", {}, b"foo")
    assert transport.send(server.server, put).status == 200
    assert len(server.connections) == 1


def test_a_request_that_ends_after_the_close_keeps_nothing(transport, server, monkeypatch):
    body = transport._body

    def closing(*given):
        answer = body(*given)
        transport.close()
        return answer

    monkeypatch.setattr(transport, "_body", closing)
    assert transport.send(server.server, GET).body == b"foo"
    assert not any(transport._idle.values())


def test_threads_have_connections_of_their_own(transport, server):
    raced(lambda _: [transport.send(server.server, GET) for _ in range(20)])
    assert 1 <= len(server.connections) <= 4


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_closed_connection_is_replaced(transport, server, method):
    body = bytes(3 << 20) if method == "PUT" else b""
    request = Request(method, f"/{FOO}", {}, body)
    transport.send(server.server, request)
    server.hang_up()
    assert transport.send(server.server, request).status == 200


def test_a_server_that_restarts_is_found_again(transport, server):
    with stub_servers(1) as (other,):
        transport.send(other.server, GET)
    with pytest.raises(BackendUnavailableError, match=other.server.url):
        transport.send(other.server, GET)
    assert not transport.is_down(other.server)


def test_a_forked_child_has_its_own_connections(transport, server):
    transport.send(server.server, GET)
    child = os.fork()
    if not child:
        os._exit(transport.send(server.server, GET).body != b"foo")
    assert os.waitpid(child, 0)[1] == 0
    assert transport.send(server.server, GET).body == b"foo"
    assert len(server.connections) == 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [(DRIP, "timed out"), (SHORT, "ends 40000 bytes early"), (None, "more than 65536")],
)
def test_an_answer_that_is_not_whole(transport, server, fault, message):
    server.faults.append(fault)
    server.blocks[FOO.digest] = bytes(80_000)
    most = 80_000 if fault else 2
    with pytest.raises(BackendUnavailableError, match=message):
        transport.send(server.server, Request("GET", f"/{FOO}", {}, most=most))
    server.going_on.set()
    server.going_on.clear()
    assert transport.is_down(server.server) == (fault == DRIP)
    server.blocks[FOO.digest] = b"foo"
    assert transport.send(server.server, GET).body == b"foo"
    assert not transport.is_down(server.server)


@pytest.mark.parametrize(("fault", "message"), [(DRIP, "timed out"), (SHORT, "40000 bytes early")])
def test_a_body_is_streamed_as_it_comes(transport, server, fault, message):
    server.faults.append(fault)
    server.blocks[FOO.digest] = bytes(80_000)
    request = Request("GET", f"/{FOO}", {}, most=80_000)
    with (
        pytest.raises(BackendUnavailableError, match=message),
        transport.stream(server.server, request) as (answer, pieces),
    ):
        found = [next(pieces)]  # the server has more, and waits
        assert answer.status == 200
        found += pieces
    server.going_on.set()
    server.going_on.clear()
    assert sum(map(len, found)) <= 40_000


def test_a_server_that_drips_is_silent(transport, server, monkeypatch):
    server.blocks[FOO.digest] = bytes(1 << 20)
    times = iter(range(0, 1000, 20))
    monkeypatch.setattr("graveler.keep.transport.monotonic", lambda: next(times))
    with pytest.raises(BackendUnavailableError, match="less than 32768 bytes a second"):
        transport.send(server.server, Request("GET", f"/{FOO}", {}, most=1 << 20))
    assert transport.is_down(server.server)


@pytest.mark.parametrize("end", [b"", b"Connection: close\r\n"])
def test_a_refusal_before_the_end_of_the_body_is_heard(transport, end):
    def refuse():
        with listener.accept()[0] as connection:
            connection.recv(1024)
            connection.sendall(
                b"HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n" + end + b"\r\nbig"
            )

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(refuse)
        server = Server("a", f"http://127.0.0.1:{listener.getsockname()[1]}")
        answer = transport.send(server, Request("PUT", f"/{FOO.digest}", {}, bytes(64 << 20)))
    assert answer.text == "413 big"


def test_a_server_that_is_not_there(transport):
    gone = Server("a", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(BackendUnavailableError, match="refused; check the server"):
        transport.send(gone, GET)


def test_a_signature_is_in_no_message(transport):
    gone = Server("a", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(BackendUnavailableError) as raised:
        transport.send(gone, Request("GET", f"/{FOO}+A{'a' * 40}@7fffffff", {}))
    assert FOO.digest in str(raised.value)
    assert "aaaa" not in str(raised.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", "key", "-out", "certificate", "-days", "2", "-subj", "/CN=keep"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "certificate", folder / "key"


def test_tls_with_a_trusted_certificate(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with stub_servers(1) as (secure,):
        secure.blocks[FOO.digest] = b"foo"
        secure.socket = context.wrap_socket(secure.socket, server_side=True)
        server = Server("a", secure.server.url.replace("http:", "https:"))
        trusting = Transport("", clock=FakeClock(), silence_s=5, tls_ca=certificate[0].read_text())
        assert trusting.send(server, GET).body == b"foo"
        big = Request("PUT", f"/{'0' * 32}", {}, bytes(5 << 20))
        assert trusting.send(server, big).status == 200
        assert len(secure.connections) == 1
        assert "Authorization" not in secure.requests[0][2]
        other = Transport("", clock=FakeClock(), silence_s=5)
        with pytest.raises(PermissionDeniedError, match="self-signed certificate"):
            other.send(server, GET)
        trusting.close()


def test_text_without_certificates_is_refused():
    with pytest.raises(InvalidInputError, match="no certificates as PEM"):
        Transport("", clock=FakeClock(), silence_s=5, tls_ca="é")
