"""The server of a lake."""

from graveler.base.arguments import count, flag, instance, text
from graveler.errors import InvalidInputError
from graveler.lake import Lake
from graveler.server.application import Application
from graveler.server.service import Service, is_loopback
from graveler.server.tokens import TokenCheck, check_token, new_token
from graveler.server.webhdfs import WebHdfs

_LOCALHOST = "127.0.0.1"


class Server(Service):
    """A lake that is served, while the server is open.

    The server does not close the lake.

    Args:
        lake: The lake.
        host: Address to listen at; an address that other machines reach needs a token.
        port: Port; 0 for a free one.
        token: The token that clients must send; "" for a new one.
        read_only: Whether all writes are refused.
        commit_on_success: Whether the staged writes below a folder are committed when a job marks
            its success there with a file ``_SUCCESS``.

    Attributes:
        token: The token that clients must send.

    Raises:
        InvalidInputError: An argument is of the wrong kind, the token cannot be sent, or other machines reach the host and no token
            is given, or the server cannot listen at the address.
    """

    def __init__(
        self,
        lake: Lake,
        *,
        host: str = _LOCALHOST,
        port: int = 0,
        token: str = "",
        read_only: bool = False,
        commit_on_success: bool = False,
    ) -> None:
        instance(lake, "lake", Lake, "a lake")
        if not (token or is_loopback(text(host, "host", empty=True))):
            raise InvalidInputError(
                f"host {host!r} is reached by other machines: give a token, which is what keeps "
                "them out"
            )
        self.token = check_token(token) if token else new_token()
        surface = WebHdfs(
            lake,
            read_only=flag(read_only, "read_only"),
            commits_on_success=flag(commit_on_success, "commit_on_success"),
        )
        count(port, "port")
        super().__init__(Application(TokenCheck(self.token), [surface]), host, port)

    @property
    def address(self) -> str:
        """The address of the lake, ``webhdfs://host:port/``."""
        return f"webhdfs://{self.authority}/"
