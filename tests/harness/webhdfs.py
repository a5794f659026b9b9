"""A minimal client of WebHDFS."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

PREFIX = "/webhdfs/v1"


@dataclass(frozen=True)
class Reply:
    """An answer of the gateway."""

    status: int
    headers: dict[str, str]
    body: bytes
    reason: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def failure(self) -> tuple[int, str]:
        """The status, and the name of the exception."""
        return self.status, self.json["RemoteException"]["exception"]

    @property
    def message(self) -> str:
        """The message of the exception."""
        return str(self.json["RemoteException"]["message"])


class WebHdfs:
    """One connection of a user to a gateway."""

    def __init__(self, address: str, token: str, root: str = "") -> None:
        self.authority = urlsplit(address).netloc
        self.token = token
        self.root = root
        self.headers: dict[str, str] = {}
        self.connection = http.client.HTTPConnection(self.authority, timeout=120)

    def target(self, path: str, op: str, **query: object) -> str:
        asked = urlencode({"op": op, "user.name": self.token, **query})
        return f"{PREFIX}{quote(self.root + path)}?{asked}"

    def send(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        chunked: bool = False,
    ) -> Reply:
        """Send one request to an HTTP path, and return the answer."""
        self.connection.request(
            method, target, body, self.headers | (headers or {}), encode_chunked=chunked
        )
        got = self.connection.getresponse()
        return Reply(got.status, dict(got.getheaders()), got.read(), got.reason)

    def ask(self, method: str, path: str, op: str, body: Any = None, **query: object) -> Reply:
        return self.send(method, self.target(path, op, **query), body)

    def get(self, path: str, op: str, **query: object) -> Reply:
        return self.ask("GET", path, op, **query)

    def follow(self, reply: Reply, method: str, body: Any = None) -> Reply:
        """Follow the redirect of an answer."""
        assert (reply.status, reply.body) == (307, b"")
        there = urlsplit(reply.headers["Location"])
        assert there.netloc == self.authority
        return self.send(method, f"{there.path}?{there.query}", body)

    def create(self, path: str, body: Any = b"", **query: object) -> Reply:
        """Create a file in the two steps of Hadoop's client; an iterable body is sent in chunks."""
        first = self.ask("PUT", path, "CREATE", **query)
        return first if first.status != 307 else self.follow(first, "PUT", body)

    def open(self, path: str, **query: object) -> Reply:
        """Read a file in the two steps of Hadoop's client."""
        first = self.get(path, "OPEN", **query)
        return first if first.status != 307 else self.follow(first, "GET")

    def mkdirs(self, path: str) -> Reply:
        return self.ask("PUT", path, "MKDIRS")

    def rename(self, path: str, to: str, **query: object) -> Reply:
        return self.ask("PUT", path, "RENAME", destination=self.root + to, **query)

    def delete(self, path: str, *, recursive: bool = False) -> Reply:
        return self.ask("DELETE", path, "DELETE", recursive=str(recursive).lower())

    def names(self, path: str) -> list[str]:
        """The names in a folder; names of folders end with a slash."""
        found = self.get(path, "LISTSTATUS").json["FileStatuses"]["FileStatus"]
        return [each["pathSuffix"] + "/" * (each["type"] == "DIRECTORY") for each in found]

    def kind(self, path: str) -> str:
        """FILE, DIRECTORY or "" for nothing."""
        got = self.get(path, "GETFILESTATUS")
        return "" if got.status == 404 else str(got.json["FileStatus"]["type"])

    def close(self) -> None:
        self.connection.close()
