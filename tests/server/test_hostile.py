"""A table of hostile requests: each one gets its status or no answer, and leaves nothing."""

import re
import socket

import pytest

TOKEN = "grav-of-the-tests"
USER = f"user.name={TOKEN}"
FILE = f"/webhdfs/v1/flights/dev/b?op=CREATE&data=true&{USER}"
STATUS = f"/webhdfs/v1/flights/dev/a?op=GETFILESTATUS&{USER}"
OPEN = f"/webhdfs/v1/flights/dev/a?op=OPEN&data=true&{USER}"
BRANCH = "/webhdfs/v1/flights/dev"
MOVE = f"{BRANCH}/a?op=RENAME&{USER}"
INNER = f"DELETE /webhdfs/v1/flights/dev/a?op=DELETE&{USER} HTTP/1.1\r\nHost: x\r\n\r\n"
"""A request that is hidden in the body of another one."""
SIZE = len(INNER)
NONE = 0
"""The connection ends without an answer."""


def get(target=STATUS, *lines, host="Host: x", version="HTTP/1.1", method="GET"):
    head = [f"{method} {target} {version}", *([host] if host else []), *lines]
    return "\r\n".join(head) + "\r\n\r\n"


def put(*lines, body=INNER, **options):
    return get(FILE, *lines, method="PUT", **options) + body


CHUNKED = "Transfer-Encoding: chunked"

# name, bytes, status
TABLE = [
    # request lines
    ("no line", "\r\n\r\n", 400),
    ("a word", "NONSENSE\r\n\r\n", 400),
    ("two words", "GET /\r\n\r\n", 400),
    ("four words", get("/a b"), 400),
    ("a tab between words", "GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a blank before the method", " " + get(), 400),
    ("an empty line before the method", "\r\n" + get(), 400),
    ("a control character", get("/\x01"), 400),
    ("a NUL", get("/\0"), 400),
    ("a bare CR in the target", get("/\rX"), 400),
    ("version 0.9", get(version="HTTP/0.9"), 505),
    ("version 1.2", get(version="HTTP/1.2"), 505),
    ("version 2.0", get(version="HTTP/2.0"), 505),
    ("version 1.10", get(version="HTTP/1.10"), 400),
    ("a lower-case version", get(version="http/1.1"), 400),
    ("another protocol", get(version="ICY/1.1"), 400),
    ("the start of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ("a long target", "GET /" + "a" * 70_000, 414),
    ("a long method", "A" * 70_000, 414),
    # methods
    ("TRACE", get(method="TRACE"), 501),
    ("CONNECT", get("x:80", method="CONNECT"), 400),
    ("OPTIONS of all", get("*", method="OPTIONS"), 400),
    ("HEAD", get(method="HEAD"), 501),
    ("PATCH", get(method="PATCH"), 501),
    ("a method of its own", get(method="TOUCH"), 501),
    ("a lower-case method", get(method="get"), 501),
    ("a method that is no word", get(method="GE,T"), 400),
    # targets
    ("an absolute target", get(f"http://evil.example{STATUS}"), 400),
    ("a broken address", get("http://[x/"), 400),
    ("no slash", get("webhdfs/v1"), 400),
    ("a fragment", get("/webhdfs/v1#a"), 400),
    ("two slashes before the prefix", get(f"/{STATUS}"), 404),
    ("an encoded prefix", get(STATUS.replace("webhdfs", "%77ebhdfs")), 404),
    ("a longer prefix", get(STATUS.replace("v1", "v1.1")), 404),
    ("a target of no surface", get("/etc/passwd"), 404),
    ("two dots", get(STATUS.replace("/dev/a", "/dev/../main/a")), 400),
    ("encoded dots", get(STATUS.replace("/dev/a", "/dev/%2e%2e/main/a")), 400),
    ("a dot", get(STATUS.replace("/dev/a", "/dev/./a")), 400),
    ("an encoded NUL", get(STATUS.replace("/dev/a", "/dev/a%00")), 400),
    ("bytes that are no UTF-8", get(STATUS.replace("/dev/a", "/dev/\xe4")), 400),
    ("a broken percent", get(STATUS.replace("/dev/a", "/dev/a%zz")), 400),
    ("half a percent", get(STATUS.replace("/dev/a", "/dev/a%2")), 400),
    ("bytes that are no text", get(STATUS.replace("/dev/a", "/dev/a%ff")), 400),
    ("a path that is too long", get(STATUS.replace("/dev/a", "/dev/" + "a" * 1025)), 400),
    # queries
    ("no operation", get(STATUS.replace("op=", "no=")), 400),
    ("an unknown operation", get(STATUS.replace("GETFILESTATUS", "FORMAT")), 400),
    ("an operation of another method", get(STATUS.replace("GETFILESTATUS", "DELETE")), 400),
    ("a query that is no text", get(f"{STATUS}&x=%ff"), 400),
    ("many parameters", get(f"{STATUS}&" + "&".join(f"p{n}=1" for n in range(100))), 400),
    ("no token", get(STATUS.replace(TOKEN, "")), 401),
    ("half a token", get(STATUS.replace(TOKEN, TOKEN[:-1])), 401),
    ("a second token that is wrong", get(f"{STATUS}&user.name=wrong"), 400),
    ("a word for a flag", get(f"{OPEN}&noredirect=perhaps").replace("&data=true", ""), 400),
    (
        "a number for a flag",
        put("Content-Length: 0", body="").replace("data", "overwrite=2&data"),
        400,
    ),
    ("a new name that is none", get(f"{MOVE}", method="PUT"), 400),
    ("a new name with dots", get(f"{MOVE}&destination=/flights/dev/../b", method="PUT"), 400),
    ("a commit without a message", get(f"{BRANCH}?op=COMMIT&{USER}", method="PUT"), 400),
    ("a folder of the lake", get(f"/webhdfs/v1/?op=MKDIRS&{USER}", method="PUT"), 403),
    ("a name of the lake", get(f"/webhdfs/v1/flights?op=MKDIRS&{USER}", method="PUT"), 403),
    ("no such ref", get(f"/webhdfs/v1/flights/new?op=MKDIRS&{USER}", method="PUT"), 404),
    (
        "a name that no ref has",
        get(f"/webhdfs/v1/flights/a:b/c?op=MKDIRS&{USER}", method="PUT"),
        404,
    ),
    ("a name that no repository has", get(f"/webhdfs/v1/F?op=GETFILESTATUS&{USER}"), 404),
    ("a folder that is opened", get(f"{BRANCH}?op=OPEN&data=true&{USER}"), 404),
    (
        "a branch that is deleted",
        get(f"{BRANCH}?op=DELETE&recursive=true&{USER}", method="DELETE"),
        403,
    ),
    (
        "a branch that is moved",
        get(f"{BRANCH}?op=RENAME&destination=/flights/dev/b&{USER}", method="PUT"),
        403,
    ),
    # ranges
    ("an offset below zero", get(f"{OPEN}&offset=-1"), 400),
    ("an offset behind the end", get(f"{OPEN}&offset=6"), 403),
    ("an offset of many digits", get(f"{OPEN}&offset={'9' * 40}"), 400),
    ("an offset that is no number", get(f"{OPEN}&offset=0x1"), 400),
    ("an offset in other digits", get(f"{OPEN}&offset=%C2%B2"), 400),
    ("a length below zero", get(f"{OPEN}&length=-1"), 400),
    ("a length of a float", get(f"{OPEN}&length=1e3"), 400),
    ("a large length", get(f"{OPEN}&offset=1&length={1 << 62}"), 200),
    ("a Range header, which WebHDFS does not have", get(OPEN, "Range: bytes=1-,0-"), 200),
    # hosts and origins
    ("no host", get(host=""), 400),
    ("two hosts", get(STATUS, "Host: y"), 400),
    ("a host with a path", get(host="Host: evil.example/x"), 400),
    ("a host with a user", get(host="Host: a@evil.example"), 400),
    ("a host with a blank", get(host="Host: a b"), 400),
    ("a host with a long port", get(host="Host: x:123456"), 400),
    ("an origin", get(STATUS, "Origin: https://evil.example"), 403),
    ("no origin of a sandbox", get(STATUS, "Origin: null"), 403),
    ("another site", get(STATUS, "Sec-Fetch-Site: cross-site"), 403),
    ("the same site", get(STATUS, "Sec-Fetch-Site: same-origin", host="Host: evil.example"), 403),
    ("an unknown site", get(STATUS, "Sec-Fetch-Site: x"), 403),
    # header lines
    ("a folded line", get(STATUS, "X: a", " b"), 400),
    ("a line folded by a tab", get(STATUS, "X: a", "\tb"), 400),
    ("a folded first line", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    ("a doubled line", get(STATUS, "X: 1", "x: 2"), 400),
    ("a line without a colon", get(STATUS, "nonsense"), 400),
    ("a line without a name", get(STATUS, ": x"), 400),
    ("a blank before the colon", get(STATUS, "X : 1"), 400),
    ("a name with a slash", get(STATUS, "a/b: 1"), 400),
    ("a name beyond ASCII", get(STATUS, "\xe4: 1"), 400),
    ("a NUL in a value", get(STATUS, "X: a\0"), 400),
    ("a bell in a value", get(STATUS, "X: a\7"), 400),
    ("a bare CR in a value", get(STATUS, "X: a\rb"), 400),
    ("a bare LF", get().replace("\r\n", "\n"), 400),
    ("a long line", get(STATUS, "X: " + "a" * 20_000), 431),
    ("long lines", get(STATUS, *(f"X{n}: {'a' * 500}" for n in range(40))), 431),
    ("many lines", get(STATUS, *(f"X{n}: 1" for n in range(200))), 431),
    ("a head without end", get(STATUS, *(f"X{n}: 1" for n in range(9)))[:-2], NONE),
    # lengths
    ("a length with a sign", put(f"Content-Length: +{SIZE}"), 400),
    ("a length below zero", put(f"Content-Length: -{SIZE}"), 400),
    ("a length in hex", put("Content-Length: 0x5"), 400),
    ("a length that is a word", put("Content-Length: five"), 400),
    ("a length that is empty", put("Content-Length:"), 400),
    ("a list of lengths", put(f"Content-Length: {SIZE}, {SIZE}"), 400),
    ("two equal lengths", put(f"Content-Length: {SIZE}", f"Content-Length: {SIZE}"), 400),
    ("two lengths", put("Content-Length: 0", f"Content-Length: {SIZE}"), 400),
    ("a length of many digits", put("Content-Length: " + "9" * 30), 400),
    ("a length behind a blank", put(f"Content-Length : {SIZE}"), 400),
    ("a length behind a fold", put("X: a", f" Content-Length: {SIZE}"), 400),
    ("a length behind a defect", put("nonsense", f"Content-Length: {SIZE}"), 400),
    ("a length behind a CR", put(f"X: a\rContent-Length: {SIZE}"), 400),
    ("a length behind a tab", put(f"\x0bContent-Length: {SIZE}"), 400),
    ("a length with an underscore", put("Content_Length: 0", f"Content-Length: {SIZE}x"), 400),
    ("a length and chunks", put(f"Content-Length: {SIZE}", CHUNKED), 400),
    ("a body that does not come", put("Content-Length: 99999", body=""), NONE),
    ("half a body", put("Content-Length: 99999"), NONE),
    # chunks
    ("two codings", put("Transfer-Encoding: gzip, chunked"), 501),
    ("an unknown coding", put("Transfer-Encoding: xchunked"), 501),
    ("a coding twice", put(CHUNKED, CHUNKED), 501),
    ("a coding behind a blank", put("Transfer-Encoding : chunked"), 400),
    ("a coding behind a form feed", put("Transfer-Encoding: \x0cchunked"), 400),
    ("chunks in version 1.0", put(CHUNKED, body="0\r\n\r\n", version="HTTP/1.0"), 400),
    ("no size", put(CHUNKED, body="\r\nhello\r\n0\r\n\r\n"), 400),
    ("a size with a sign", put(CHUNKED, body="-5\r\nhello\r\n0\r\n\r\n"), 400),
    ("a size with 0x", put(CHUNKED, body="0x5\r\nhello\r\n0\r\n\r\n"), 400),
    ("a size with an underscore", put(CHUNKED, body="0_5\r\nhello\r\n0\r\n\r\n"), 400),
    ("a size of many digits", put(CHUNKED, body="f" * 30 + "\r\nhello\r\n0\r\n\r\n"), 400),
    ("a large size", put(CHUNKED, body="fffffffffffffff\r\nhello"), NONE),
    ("a chunk that is too long", put(CHUNKED, body="5\r\nhello!\r\n0\r\n\r\n"), 400),
    ("a chunk that is too short", put(CHUNKED, body="5\r\nhell\r\n0\r\n\r\n"), 400),
    ("more lines than bodies have", put(CHUNKED, body="0\r\n" + "A: b\r\n" * 101 + "\r\n"), 400),
    ("a line without end after the body", put(CHUNKED, body="0\r\n" + "A" * 5_000), 400),
    ("a size with an extension without end", put(CHUNKED, body="5;" + "a" * 5_000), 400),
    ("a size with a plus", put(CHUNKED, body="+5\r\nhello\r\n0\r\n\r\n"), 400),
    ("a size that ends with a bare LF", put(CHUNKED, body="5\nhello\r\n0\r\n\r\n"), 400),
    ("a chunk without its end", put(CHUNKED, body="5\r\nhelloXX0\r\n\r\n"), 400),
    ("a long extension", put(CHUNKED, body="5;" + "a" * 300_000), 400),
    ("long trailers", put(CHUNKED, body="0\r\n" + "X: a\r\n" * 60_000), 400),
    ("a trailer that is none", put(CHUNKED, body="0\r\nnonsense\r\n\r\n"), 400),
    ("half a chunk", put(CHUNKED, body="5\r\nhe"), NONE),
    ("no last chunk", put(CHUNKED, body="5\r\nhello\r\n"), NONE),
    # bodies that are not read
    ("a request in the body of a GET", get(STATUS, f"Content-Length: {SIZE}") + INNER, 200),
    ("a request in the body of a stranger", put(f"Content-Length: {SIZE}").replace(USER, ""), 401),
    ("a request in the body of no surface", get("/x", f"Content-Length: {SIZE}") + INNER, 404),
    ("another expectation", get(STATUS, "Expect: 200-ok"), 200),
]


@pytest.fixture
def ask(client, dev):
    """Sends bytes, ends its side of the connection, and returns the whole answer."""
    dev.put("a", b"hello")
    host, _, port = client.authority.partition(":")

    def send(data):
        answer = b""
        with socket.create_connection((host, int(port)), timeout=120) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 16):
                    answer += piece
            except ConnectionError:
                pass  # the server ended the connection before it had read all
        return answer

    return send


def test_the_table_has_no_row_twice():
    assert len({name for name, _, status in TABLE}) > 70
    assert len({data for _, data, _ in TABLE}) == len(TABLE)


def test_hostile_requests_get_their_status(ask, client, dev, capfd):
    wrong = []
    for name, data, status in TABLE:
        answer = ask(data.encode("latin-1"))
        found = [int(each) for each in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]
        if found != [status] * (status != NONE):
            wrong.append((name, f"{found} and not {status}"))
        if b'{"error"' in answer and status != 404 and b"Connection: close" not in answer:
            wrong.append((name, "the connection stays open"))
        if TOKEN.encode() in answer:
            wrong.append((name, "the answer has the token"))
    assert not wrong, wrong
    assert [entry.path for entry in dev.entries()] == ["a"]
    assert client.open("/a").body == b"hello"
    assert capfd.readouterr().err == ""
