"""The operations of WebHDFS by method and name."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from typing import Any, BinaryIO, Final, cast

from graveler.errors import NoChangesError
from graveler.gateway import statuses
from graveler.gateway.bodies import RequestBody
from graveler.gateway.downloads import Download
from graveler.gateway.failures import ACCESS, ARGUMENT, IO, UNSUPPORTED, RemoteError
from graveler.gateway.memory import Folder
from graveler.gateway.namespace import Namespace
from graveler.gateway.tree import Node, Summary, Tree

DATA: Final = "data"
"""The parameter of a request that was redirected to the data."""
_PAGE: Final = 10_000
_SUCCESS: Final = "_SUCCESS"
_DRAINED_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """A request as an operation sees it.

    Attributes:
        tree: The tree of the path.
        path: The path in the tree.
        query: The parameters by lower-case name.
        here: Address of the request, to which it can be sent again.
        namespace: All trees.
        body: The body; None if the request has none.
    """

    tree: Tree
    path: str
    query: dict[str, str]
    here: str
    namespace: Namespace
    body: RequestBody | None

    def text(self, name: str) -> str:
        """Return a parameter.

        Raises:
            RemoteError: The parameter is missing.
        """
        value = self.query.get(name, "")
        if not value:
            raise RemoteError(ARGUMENT, f"the parameter {name!r} is missing")
        return value

    def number(self, name: str, default: int) -> int:
        """Return a parameter that is a number of 0 or more.

        Raises:
            RemoteError: It is not such a number.
        """
        value = self.query.get(name, "")
        if not value or value == "null":
            return default
        if not (value.isascii() and value.isdecimal() and len(value) < 20):
            raise RemoteError(ARGUMENT, f"{name}={value!r}: give a whole number from 0 on")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        """Return a parameter that is true or false.

        Raises:
            RemoteError: It is neither.
        """
        value = self.query.get(name, "").lower()
        if value not in {"", "true", "false"}:
            raise RemoteError(ARGUMENT, f"{name}={value!r}: give true or false")
        return value == "true" if value else default


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    Attributes:
        document: The JSON body, or None.
        status: The status.
        location: The address to which the client must send the request again.
        download: Bytes of a file, which are the body.
        reason: The words next to the status; "" for the usual ones.
    """

    document: dict[str, Any] | None = None
    status: int = 200
    location: str = ""
    download: Download | None = None
    reason: str = ""

    @classmethod
    def of(cls, error: RemoteError) -> "Answer":
        """Return the answer to a request that failed."""
        # for a refused token Hadoop's client shows only these words
        reason = str(error) if error.status == HTTPStatus.UNAUTHORIZED else ""
        return cls(error.document, status=error.status, reason=reason)


def _status(request: Request) -> Answer:
    tree = request.tree
    node = tree.get(request.path)
    return Answer({"FileStatus": statuses.file_status(node, writable=tree.writable)})


def _nodes(request: Request) -> list[tuple[str, Node]]:
    """Return the content of a folder; for a file, the file itself without a name."""
    nodes = request.tree.below(request.path)
    if nodes:
        return nodes
    node = request.tree.get(request.path)
    return [] if isinstance(node, Folder) else [("", node)]


def _list(request: Request) -> Answer:
    return Answer(statuses.listing(_nodes(request), writable=request.tree.writable))


def _list_page(request: Request) -> Answer:
    after = request.query.get("startafter", "").removeprefix("./").encode()
    nodes = [item for item in _nodes(request) if not after or item[0].encode() > after]
    page = statuses.listing(nodes[:_PAGE], writable=request.tree.writable)
    left = max(len(nodes) - _PAGE, 0)
    return Answer({"DirectoryListing": {"partialListing": page, "remainingEntries": left}})


def _summary(request: Request) -> Answer:
    node = request.tree.get(request.path)
    if isinstance(node, Folder):
        return Answer(statuses.summary(request.tree.summary(request.path)))
    return Answer(statuses.summary(Summary(1, 0, node.size)))


def _open(request: Request) -> Answer:
    entry = request.tree.file(request.path)
    start = request.number("offset", 0)
    if start > entry.size:
        raise RemoteError(IO, f"Offset={start} out of the range [0, {entry.size}]")
    length = min(request.number("length", entry.size), entry.size - start)
    if request.query.keys().isdisjoint({DATA, "offset", "length"}):
        return _redirect(request)  # Hadoop's client would drop the bytes, and ask for an offset
    return Answer(download=Download(request.tree.stores, entry, start, length))


def _redirect(request: Request) -> Answer:
    there = f"{request.here}&{DATA}=true"
    if request.flag("noredirect", default=False):
        return Answer({"Location": there})
    return Answer(status=307, location=there)


def _blocks(request: Request) -> Answer:
    return Answer(statuses.block_locations(request.tree.file(request.path)))


def _old_blocks(request: Request) -> Answer:
    return Answer(statuses.located_blocks(request.tree.file(request.path)))


def _home(request: Request) -> Answer:
    del request
    return Answer({"Path": "/"})


def _defaults(request: Request) -> Answer:
    del request
    return Answer(statuses.server_defaults())


def _delegation(request: Request) -> Answer:
    del request
    return Answer({"Token": None})  # as a cluster without Kerberos answers


def _access(request: Request) -> Answer:
    tree = request.tree
    tree.get(request.path)
    if "w" in request.query.get("fsaction", "") and not tree.writable:
        raise RemoteError(ACCESS, f"{tree.shown(request.path)} can only be read")
    return Answer()


def _make_folder(request: Request) -> Answer:
    request.tree.make_folder(request.path)
    return Answer({"boolean": True})


def _create(request: Request) -> Answer:
    overwrite = request.flag("overwrite", default=True)
    parents = request.flag("createparent", default=True)
    flags = {each for each in request.query.get("createflag", "").upper().split(",") if each}
    if "APPEND" in flags:
        raise _not_offered("APPEND")
    if flags:
        overwrite = "OVERWRITE" in flags
    if request.body is None and DATA not in request.query:
        request.tree.check_create(request.path, overwrite=overwrite, parents=parents)
        return _redirect(request)
    body = request.body or BytesIO()
    if request.path.rpartition("/")[2] == _SUCCESS:
        return _succeed(request, body)
    request.tree.create(request.path, cast("BinaryIO", body), overwrite=overwrite, parents=parents)
    return Answer(status=201)


def _succeed(request: Request, body: RequestBody | BytesIO) -> Answer:
    """Handle the mark of a job that has succeeded: it is not stored, but it may start a commit."""
    request.tree.check_create(request.path, overwrite=True, parents=True)
    while body.read(_DRAINED_BYTES):
        pass
    folder = request.path.rpartition("/")[0]
    if request.tree.mark_success(folder):
        _commit_success(request, folder)
    return Answer(status=201)


def _commit_success(request: Request, folder: str) -> None:
    if request.namespace.commits_on_success:
        with suppress(NoChangesError):
            request.tree.commit(folder, f"write {folder or 'the whole tree'}")


def _rename(request: Request) -> Answer:
    tree, path = request.tree, request.path
    there, to = request.namespace.at(request.text("destination"))
    if there.place != tree.place:
        raise RemoteError(
            UNSUPPORTED,
            f"{tree.shown(path)} cannot be moved to {there.shown(to)}: files are moved within one "
            "branch; `graveler cp` copies them to another one without copying bytes",
        )
    options = request.query.get("renameoptions", "").upper()
    if not options:
        return Answer({"boolean": tree.rename(path, to)})
    tree.replace(path, to, overwrite="OVERWRITE" in options.split(","))
    return Answer()


def _delete(request: Request) -> Answer:
    tree, path = request.tree, request.path
    emptied = tree.has_succeeded(path)
    done = tree.delete(path, recursive=request.flag("recursive", default=False))
    if emptied:
        _commit_success(request, path.rpartition("/")[0])
    return Answer({"boolean": done})


def _ignore(request: Request) -> Answer:
    request.tree.get(request.path)
    return Answer()  # a lake has no owners, permissions and times


def _replication(request: Request) -> Answer:
    return Answer({"boolean": not isinstance(request.tree.get(request.path), Folder)})


def _commit(request: Request) -> Answer:
    return Answer({"Commit": request.tree.commit(request.path, request.text("message"))})


Operation = Callable[[Request], Answer]

OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("GET", "GETFILESTATUS"): _status,
    ("GET", "GETFILELINKSTATUS"): _status,
    ("GET", "LISTSTATUS"): _list,
    ("GET", "LISTSTATUS_BATCH"): _list_page,
    ("GET", "GETCONTENTSUMMARY"): _summary,
    ("GET", "OPEN"): _open,
    ("GET", "GETFILEBLOCKLOCATIONS"): _blocks,
    ("GET", "GET_BLOCK_LOCATIONS"): _old_blocks,
    ("GET", "GETHOMEDIRECTORY"): _home,
    ("GET", "GETSERVERDEFAULTS"): _defaults,
    ("GET", "GETDELEGATIONTOKEN"): _delegation,
    ("GET", "CHECKACCESS"): _access,
    ("PUT", "MKDIRS"): _make_folder,
    ("PUT", "CREATE"): _create,
    ("PUT", "RENAME"): _rename,
    ("DELETE", "DELETE"): _delete,
    ("PUT", "SETPERMISSION"): _ignore,
    ("PUT", "SETOWNER"): _ignore,
    ("PUT", "SETTIMES"): _ignore,
    ("PUT", "SETREPLICATION"): _replication,
    ("PUT", "COMMIT"): _commit,
    ("POST", "COMMIT"): _commit,
}

_NOT_OFFERED: Final = {
    "APPEND": "files of a lake are never changed: write the file again",
    "CONCAT": "files of a lake are never changed: write one file of the parts",
    "TRUNCATE": "files of a lake are never changed: write the file again",
    "CREATESYMLINK": "a lake has no symbolic links: copy the file, which copies no bytes",
    "GETFILECHECKSUM": "a lake has other checksums than HDFS: copy without comparing them",
}


def operation(method: str, name: str) -> Operation:
    """Return the operation of a request.

    Raises:
        RemoteError: There is none.
    """
    known = OPERATIONS.get((method, name))
    if known is not None:
        return known
    if name in _NOT_OFFERED:
        raise _not_offered(name)
    offered = sorted(each for of, each in OPERATIONS if of == method)
    # these words tell older clients to ask for GET_BLOCK_LOCATIONS
    raise RemoteError(
        ARGUMENT,
        f'Invalid value for webhdfs parameter "op": {name!r} of {method}; the gateway knows '
        f"{', '.join(offered) or 'nothing of this method'}",
    )


def _not_offered(name: str) -> RemoteError:
    return RemoteError(UNSUPPORTED, f"{name}: {_NOT_OFFERED[name]}")
