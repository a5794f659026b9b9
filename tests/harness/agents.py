"""An agent's client, by the library's own client: in memory, or of a program over its pipes."""

from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal
from mcp import Client


class Refused(Exception):
    """The error of a tool, as an agent reads it."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.error = error

    @property
    def code(self):
        return self.error["code"]


class Agent:
    """Calls the tools of a server: ``agent.put_text(path="a", text="1")``."""

    def __init__(self, portal, client):
        self._portal = portal
        self._client = client

    def tools(self):
        return self._portal.call(self._client.list_tools).tools

    def raw(self, name, arguments):
        return self._portal.call(self._client.call_tool, name, arguments)

    def call(self, name, arguments):
        result = self.raw(name, arguments)
        if result.is_error:
            raise Refused(result.structured_content["error"])
        return result.structured_content

    def __getattr__(self, name):
        return lambda **arguments: self.call(name, arguments)


@contextmanager
def agent_of(server):
    """Yield an agent that is connected to a server, or to a program by its parameters."""
    with start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(Client(server)) as client:
            yield Agent(portal, client)
