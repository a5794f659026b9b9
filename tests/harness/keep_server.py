"""A client of one server of Keep, which sends any request."""

import json
from http.client import HTTPConnection

from graveler.keep.locators import Locator

USER = "grav-of-the-tests"
FOO = "acbd18db4cc2f85cedef654fccc4a4d8"


class Client:
    """Requests to a server, and what it answered."""

    def __init__(self, lake, server, system="main"):
        self.server = server
        self.lake = lake
        self.manager = lake.keep.get(system).token

    def __call__(self, method, path, body=None, *, token=USER, **headers):
        connection = HTTPConnection(self.server.authority)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, {n.replace("_", "-"): v for n, v in headers.items()})
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        self.headers = response.headers
        return response.status, answer

    def put(self, content, **options):
        status, answer = self("PUT", f"/{Locator.of(content).digest}", content, **options)
        assert status == 200
        return answer.decode().strip()

    def json(self, path):
        status, answer = self("GET", path, token=self.manager)
        assert status == 200
        return json.loads(answer)

    def age(self, seconds):
        self.lake.keep.clock.advance(seconds=seconds)
