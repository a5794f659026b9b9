"""``graveler keep``: blocks on servers of your own."""

import re
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.arguments import read_duration
from graveler.cli.failure import UsageError
from graveler.cli.serving import repeat, serve
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import environment
from graveler.errors import StateError

if TYPE_CHECKING:
    from graveler.collections.systems import KeepServer as ServerRecord
    from graveler.collections.systems import Systems
    from graveler.keep.client import KeepClient
    from graveler.server.keep.service import KeepServer

_VARIABLE = "GRAVELER_KEEP_TOKEN"
_ANY_ADDRESS = re.compile(r"//(0\.0\.0\.0|\[::\]):")
_System = Annotated[str, "The system: servers that share a signing key."]
_Uuid = Annotated[str, "The UUID of the server."]
_Locator = Annotated[str, "The locator of a block, hash+size and its signature."]


def _systems(session: Session) -> "Systems":
    return session.lake.keep


@verb("keep create")
def _create(
    session: Session,
    system: _System,
    *,
    ttl: str = "14d",
    replicas: Annotated[int, {"min": 1, "max": 16}] = 2,
    encrypt: bool = False,
    tls_ca: Annotated[Path | None, {"exists": True, "dir_okay": False}] = None,
) -> None:
    """Make a system with a signing key of its own.

    Args:
        ttl (DURATION): How long a block that nothing names is kept, and the life of every signature.
        replicas (N): The copies of each block.
        encrypt: Encrypt blocks on the disks; the key is in the lake's key-value store.
        tls_ca (FILE): The certificates that sign those of the servers, by default those of each machine.
    """
    made = _systems(session).create(
        system,
        ttl=read_duration("--ttl", ttl),
        replication=replicas,
        encrypted=encrypt,
        tls_ca="" if tls_ca is None else _pem(tls_ca),
    )
    shape = {
        "name": made.name,
        "ttl_seconds": made.ttl.total_seconds(),
        "replicas": made.replication,
    }
    session.out.show(
        shape, f"made the system {system}: serve it with `graveler keep serve {system} FOLDER`"
    )


@verb("keep rotate-key")
def _rotate_key(session: Session, system: _System) -> None:
    """Encrypt new blocks with another key. Start the servers again; their scrubs encrypt the older ones."""
    count = len(_systems(session).rotate_key(system).volume_keys)
    session.out.show({"keys": count}, f"{system} has {count} keys: start its servers again")


@verb("keep trust")
def _trust(
    session: Session,
    system: _System,
    file: Annotated[Path, "Certificates as PEM.", {"exists": True, "dir_okay": False}],
) -> None:
    """Verify the servers by the certificates of a file. Start the servers again."""
    _systems(session).trust(system, _pem(file))
    session.out.show({"name": system}, f"{system} trusts {file}: start its servers again")


@verb("keep serve")
def _serve(
    session: Session,
    system: _System,
    folders: Annotated[list[Path], "A folder for each volume; a new one becomes a volume."],
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, {"min": 0, "max": 65535}] = 25107,
    tls_cert: Annotated[Path | None, {"exists": True, "dir_okay": False}] = None,
    tls_key: Annotated[Path | None, {"exists": True, "dir_okay": False}] = None,
    token: str = "",
    buffers: Annotated[int, {"min": 1, "max": 1024}] = 8,
    verify: Annotated[bool, "--verify/--no-verify"] = True,
    scrub: Annotated[int, {"min": 0, "max": 10_000}] = 20,
    new_disk: bool = False,
    take_over: bool = False,
    compat: bool = False,
) -> None:
    """Serve blocks in folders. It runs until Ctrl-C or SIGTERM.

    Args:
        host (ADDRESS): Address to listen at; 0.0.0.0 for other machines, with a certificate.
        port (N): Port; 0 for a free one.
        tls_cert (FILE): The certificate, which encrypts what is sent.
        tls_key (FILE): The key of the certificate.
        token (TEXT): The token that clients show while the lake has no users; GRAVELER_KEEP_TOKEN.
        buffers (N): Blocks of 64 MiB that memory may hold at once.
        verify: Verify every block that is read, not only when a client asks for it.
        scrub (N): MiB in a second that are read at most to verify all copies again and again; 0 for none.
        new_disk: An empty folder that was a volume is the place of another disk.
        take_over: Take over folders of a system whose key-value store is lost.
        compat: Answer as today's keepstore of Arvados where its first design says something else.
    """
    from graveler.server.keep.service import KeepServer

    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key: give both of them")
    given = token or environment(_VARIABLE) or ""

    def opened() -> KeepServer:
        server = KeepServer(
            session.lake,
            system,
            folders,
            host=host,
            port=port,
            tls=None if tls_cert is None or tls_key is None else (tls_cert, tls_key),
            token=given,
            buffers=buffers,
            verifies=verify,
            compat=compat,
            scrub_bytes=scrub << 20,
            new_disks=new_disk,
            take_over=take_over,
        )
        _announce(session, system, server, made=not given)
        return server

    serve(opened)


def _announce(session: Session, system: str, server: "KeepServer", *, made: bool) -> None:
    shape: dict[str, Any] = {"address": server.address}
    lines = [server.address]
    if session.lake.iam.access.has_users():
        lines.append(
            "the lake has users: clients send a token of theirs (`graveler token create USER`)"
        )
    elif made:
        shape["token"] = server.token
        lines.append(f"token: {server.token}")
    reached = _ANY_ADDRESS.sub("//HOST:", server.address)
    if all(reached != each.url for each in _systems(session).servers(system)):
        lines.append(f"clients find it after `graveler keep servers add {system} {reached}`")
    if reached != server.address:
        lines.append("in place of HOST, give a name of this machine that is in the certificate")
    session.out.show(shape, *lines)
    session.out.flush()


@verb("keep servers list")
def _list_servers(session: Session, system: _System) -> None:
    """List the servers of a system."""
    _systems(session).get(system)
    for server in _systems(session).servers(system):
        session.out.show(_shape(server), f"{server.uuid}  {server.url}  {server.state}")


@verb("keep servers add")
def _add_server(
    session: Session,
    system: _System,
    url: Annotated[str, "http://host:port/, https://host:port/ or keep+tls://host:port/"],
    *,
    uuid: str = "",
) -> None:
    """Add a server, or give a server another address.

    Args:
        uuid (UUID): The server whose place it takes, by default none.
    """
    server = _systems(session).add_server(system, url, uuid)
    session.out.show(_shape(server), f"server {server.uuid} is at {server.url}")


@verb("keep servers drain")
def _drain_server(session: Session, system: _System, uuid: _Uuid) -> None:
    """Let clients write to a server no more; the data manager moves its blocks to the others."""
    systems = _systems(session)
    server = systems.drain_server(system, uuid)
    lines = [f"server {uuid} is {server.state}"]
    copies = systems.get(system).replication
    left = [each for each in systems.servers(system) if each.state == "active"]
    if len(left) < copies:
        lines.append(
            f"warning: {len(left)} active servers are fewer than {copies} copies, so puts may fail and "
            f"blocks lack copies: add a server (`graveler keep servers add {system} URL`)"
        )
    session.out.show(_shape(server), *lines)


@verb("keep servers remove")
def _remove_server(session: Session, system: _System, uuid: _Uuid) -> None:
    """Forget a server, whose blocks are then counted no more."""
    _systems(session).remove_server(system, uuid)
    session.out.show({"removed": uuid}, f"server {uuid} is removed")


@verb("keep balance")
def _balance(
    session: Session,
    system: _System,
    *,
    every: str = "",
    dry_run: bool = False,
    force: bool = False,
) -> None:
    """Give each block its copies, and trash what nothing needs any more.

    A copy that is younger than the time to live stays. A trashed one can be brought back for two weeks.

    Args:
        every (DURATION): Do it again and again, as 6h, until Ctrl-C or SIGTERM.
        dry_run: Say what would be done, and do nothing.
        force: Trash also more than a fifth of all bytes, and take the turn of a sweep that was killed.
    """
    from graveler.datamanager.manager import DataManager

    manager = DataManager(session.lake, system)

    def once() -> None:
        receipt = manager.sweep(dry_run=dry_run, force=force)
        shape = {
            "states": {name: tally.blocks for name, tally in receipt.states.items()},
            "classes": {name: asdict(tally) for name, tally in receipt.classes.items()},
            "ahead": dict(receipt.ahead),
            "pulls": receipt.pulls.sent,
            "trash": receipt.trash.sent,
            "withheld": receipt.withheld,
            "lost": list(receipt.lost),
            "untrashed": receipt.untrashed,
        }
        session.out.show(shape, *receipt.report().splitlines())
        session.out.flush()
        if receipt.withheld or receipt.lost:
            raise StateError("see above: copies were not trashed, or blocks are lost")

    pause = read_duration("--every", every) if every else None
    if pause is not None and not pause:
        raise UsageError("--every 0: give a length of time, as 6h")
    if pause is not None:
        repeat(once, pause)
    else:
        once()


@verb("keep explain")
def _explain(session: Session, system: _System, locator: _Locator) -> None:
    """Say what the next sweep does with each copy of a block, and why."""
    from graveler.datamanager.manager import DataManager
    from graveler.keep.locators import Locator

    lines = DataManager(session.lake, system).explain(Locator.parse(locator))
    session.out.show({"lines": lines}, *lines)


@verb("keep put")
def _put(
    session: Session,
    system: _System,
    file: Annotated[Path, "The file, of at most 64 MiB.", {"exists": True, "dir_okay": False}],
    *,
    token: str = "",
) -> None:
    """Store a file as one block, and print its locator.

    Args:
        token (TEXT): A token with the right keep:write; GRAVELER_KEEP_TOKEN.
    """
    with _client(session, system, token) as client:
        locator = str(client.put(file.read_bytes()))
    session.out.show({"locator": locator}, locator)


@verb("keep get")
def _get(session: Session, system: _System, locator: _Locator, *, token: str = "") -> None:
    """Write the bytes of a block to the standard output.

    Args:
        token (TEXT): The token for which the locator is signed; GRAVELER_KEEP_TOKEN.
    """
    from graveler.keep.locators import Locator

    with _client(session, system, token) as client:
        session.out.data(client.get(Locator.parse(locator)))


@verb("keep untrash")
def _untrash(session: Session, system: _System, locator: _Locator, *, token: str = "") -> None:
    """Bring a block back that is in the trash of servers; it is then as if it were new.

    Args:
        token (TEXT): A token with the right keep:manage; GRAVELER_KEEP_TOKEN.
    """
    from graveler.keep.locators import Locator

    with _client(session, system, token) as client:
        count = client.untrash(Locator.parse(locator))
    session.out.show({"servers": count}, f"the block is back on {count} servers")


def _client(session: Session, system: str, token: str) -> "closing[KeepClient]":
    return closing(_systems(session).client(system, token or environment(_VARIABLE) or ""))


def _pem(file: Path) -> str:
    return file.read_text("ascii", "replace")


def _shape(server: "ServerRecord") -> dict[str, Any]:
    return {"uuid": server.uuid, "url": server.url, "state": server.state.value}
