"""``graveler ui``: pages about the lake, for a browser."""

import webbrowser
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.serving import serve
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import environment

if TYPE_CHECKING:
    from graveler.server.pages import PageServer

_VARIABLE = "GRAVELER_UI_TOKEN"


@verb("ui")
def _ui(
    session: Session,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, {"min": 0, "max": 65535}] = 9871,
    token: str = "",
    open_browser: bool = False,
) -> None:
    """Show the lake in a browser: repositories, history, files, differences, runs and gates.

    The pages change nothing. They are served until Ctrl-C or SIGTERM, at an address that has a token.

    Args:
        host (ADDRESS): Address to listen at; 0.0.0.0 for other machines.
        port (N): Port; 0 for a free one.
        token (TEXT): The token that opens the pages while the lake has no users. Prefer
            GRAVELER_UI_TOKEN: other users of the machine see the arguments of a program. By default a
            new token is made and is in the printed address.
        open_browser (--open): Open the address in the browser.
    """
    from graveler.server.pages import PageServer

    given = token or environment(_VARIABLE)

    def opened() -> PageServer:
        server = PageServer(session.lake, host=host, port=port, token=given)
        _announce(session, server)
        if open_browser:
            webbrowser.open(server.address)
        return server

    serve(opened)


def _announce(session: Session, server: "PageServer") -> None:
    shape: dict[str, Any] = {"address": server.address}
    lines = [server.address]
    if session.lake.iam.access.has_users():
        lines.append("the lake has users: enter a token (`graveler token create USER`)")
    session.out.show(shape, *lines)
    session.out.flush()
