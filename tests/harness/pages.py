"""A repository with something for every page, and a client of the pages."""

import http.client
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from graveler.errors import GravelerError
from graveler.gates import Gate

TOKEN = "grav-of-the-tests"


@dataclass(frozen=True)
class Reply:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    text: str


class Client:
    """A browser with one cookie; each request has a connection of its own."""

    def __init__(self, server, token=""):
        self.authority = urlsplit(server.address).netloc
        port = urlsplit(server.address).port
        self.headers = {"Cookie": f"graveler-{port}={token}"} if token else {}

    def send(self, method, target, headers=None, body=None):
        """Send a request as it is; a header that is None is left out."""
        connection = http.client.HTTPConnection(self.authority, timeout=60)
        sent = {"Host": self.authority, **self.headers, **(headers or {})}
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Reply(answer.status, {name.lower(): it for name, it in answer.getheaders()}, text)

    def get(self, target, **headers):
        return self.send("GET", target, headers)


def filled(repo, text="hour"):
    """Fill a repository; `text` is in all names and messages that may have any text."""
    main, folder = repo.branch("main"), folder_of(text)
    main.put(f"tables/{folder}/part.csv", b"a,b\n1,2\n")
    main.commit(f"first {text}\n\nwith more {text}", committer=text, metadata={text: text})
    full = Gate("full", _no_holes)
    for number in range(3):
        with suppress(GravelerError, ValueError):
            with repo.run(f"{text} {number}", into="main", gates=[full]) as run:
                run.put(f"out/{folder}/{number}.csv", b"a,b\n" * (number + 1))
                run.commit(f"step {text}")
                if number == 1:
                    run.put("hole", text.encode())
    dev = repo.create_branch("dev")
    dev.put(f"staged/{folder}", b"x")
    repo.tags.create("v1", "main~1")
    return repo


def folder_of(text):
    """Return a folder with the name, which paths can hold."""
    return text.replace("//", "/").rstrip("/")


def _no_holes(candidate):
    candidate.report(rows=3)
    if candidate.exists("hole"):
        raise ValueError(candidate.get("hole").decode())
