"""An S3 server in memory that waits before each answer: ``SECONDS``; prints its port.

It supports graveler's requests: whole objects, ranges, conditional puts, lists.
"""

import asyncio
import sys
from collections.abc import Mapping
from email.utils import formatdate
from hashlib import md5
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

OBJECTS: dict[str, bytes] = {}


def answer(
    method: str, target: str, headers: Mapping[str, str], body: bytes
) -> tuple[str, dict[str, str], bytes]:
    """Return status, headers and body."""
    url = urlsplit(target)
    key = unquote(url.path).lstrip("/").partition("/")[2]
    if method == "GET" and not key:
        return "200 OK", {"Content-Type": "application/xml"}, listed(parse_qs(url.query))
    if method == "PUT":
        stored = etag(OBJECTS[key]) if key in OBJECTS else ""
        if ("if-none-match" in headers and stored) or headers.get("if-match", stored) != stored:
            return "412 Precondition Failed", {}, error("PreconditionFailed")
        OBJECTS[key] = body
        return "200 OK", {"ETag": etag(body)}, b""
    if key not in OBJECTS:
        return "404 Not Found", {}, error("NoSuchKey")
    content = OBJECTS[key]
    facts = {"ETag": etag(content), "Last-Modified": formatdate(usegmt=True)}
    if "range" in headers:
        first, _, last = headers["range"].removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1]
        facts["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        return "206 Partial Content", facts, part
    return "200 OK", facts, content


def etag(content: bytes) -> str:
    """Return the ETag of an object."""
    return f'"{md5(content, usedforsecurity=False).hexdigest()}"'


def error(code: str) -> bytes:
    """Return the body of a refusal."""
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


def listed(query: Mapping[str, list[str]]) -> bytes:
    """Return one page with all keys of a prefix."""
    prefix, after = query.get("prefix", [""])[0], query.get("start-after", [""])[0]
    rows = [
        f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>{etag(content)}</ETag>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        for key, content in sorted(OBJECTS.items())
        if key.startswith(prefix) and key > after
    ]
    page = "<IsTruncated>false</IsTruncated>" + "".join(rows)
    return f"<ListBucketResult>{page}</ListBucketResult>".encode()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Answer the requests of one connection."""
    while line := await reader.readline():
        method, target, _ = line.decode().split()
        headers = {}
        while (header := (await reader.readline()).decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        await asyncio.sleep(seconds)
        status, facts, content = answer(method, target, headers, body)
        facts["Content-Length"] = str(len(content))
        head = "".join(f"{name}: {value}\r\n" for name, value in facts.items())
        sent = content if method != "HEAD" else b""
        writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + sent)
        await writer.drain()
    writer.close()


async def main(seconds: float) -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(
        lambda reader, writer: serve(reader, writer, seconds), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
