"""``graveler gateway``: the lake as a file system for Spark and other Hadoop clients."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.failure import UsageError
from graveler.cli.serving import serve
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import environment

if TYPE_CHECKING:
    from graveler.server import Server

_VARIABLE = "GRAVELER_GATEWAY_TOKEN"


@verb("gateway")
def _gateway(
    session: Session,
    place: str = "",
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, {"min": 0, "max": 65535}] = 9870,
    token: str = "",
    token_file: Annotated[Path | None, {"exists": True, "dir_okay": False}] = None,
    commit_on_success: bool = False,
    read_only: bool = False,
) -> None:
    """Serve the lake to Spark and other Hadoop clients, as webhdfs://HOST:PORT/REPO/REF/PATH.

    It runs until Ctrl-C or SIGTERM. The first one lets active requests end for 8 seconds; a second
    one ends it at once.

    Args:
        place (LAKE): As --lake.
        host (ADDRESS): Address to listen at; 0.0.0.0 for other machines.
        port (N): Port; 0 for a free one.
        token (TEXT): The token that clients send while the lake has no users. Prefer GRAVELER_GATEWAY_TOKEN or a file: other
            users of the machine see the arguments of a program. By default a new token is made and
            printed.
        token_file (FILE): A file with the token.
        commit_on_success: Commit a job's files when it marks its success.
        read_only: Refuse all writes.
    """
    from graveler.server import Server

    if place:
        session.options = replace(session.options, lake=place)
    given = _token(token, token_file)

    def opened() -> Server:
        gateway = Server(
            session.lake,
            host=host,
            port=port,
            token=given,
            read_only=read_only,
            commit_on_success=commit_on_success,
        )
        _announce(session, gateway, made=not given)
        return gateway

    serve(opened)


def _token(given: str, file: Path | None) -> str:
    if given and file is not None:
        raise UsageError("--token and --token-file: give one of them")
    if file is not None:
        return file.read_text("utf-8").strip()
    return given or environment(_VARIABLE) or ""


def _announce(session: Session, gateway: "Server", *, made: bool) -> None:
    shape: dict[str, Any] = {"address": gateway.address}
    lines = [gateway.address]
    if session.lake.iam.access.has_users():
        lines.append(
            "the lake has users: clients send a token of theirs (`graveler token create USER`)"
        )
    elif made:
        shape["token"] = gateway.token
        lines.append(f"token: {gateway.token}")
    session.out.show(shape, *lines)
    session.out.flush()
