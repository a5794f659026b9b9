"""The operations of WebHDFS by method and name."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain, islice
from operator import itemgetter
from threading import BoundedSemaphore
from typing import Any, BinaryIO, cast

from graveler.errors import NoChangesError
from graveler.model import Entry
from graveler.server.downloads import FileDownload
from graveler.server.messages import Answer, Body, Request
from graveler.server.webhdfs import statuses
from graveler.server.webhdfs.branch_tree import BranchTree
from graveler.server.webhdfs.errors import ACCESS, ARGUMENT, END, UNSUPPORTED, RemoteError
from graveler.server.webhdfs.memory import Folder
from graveler.server.webhdfs.namespace import Namespace
from graveler.server.webhdfs.rights import Rights
from graveler.server.webhdfs.tree import Node, RefTree, Summary, Tree

DATA = "data"
"""The parameter of a request that was redirected to the data."""
_BYTES = "application/octet-stream"
_PAGE = 10_000
_LISTS = BoundedSemaphore(8)
"""Whole folders that are listed at once, because each needs six times the memory of its list."""
_MOST = (1 << 63) - 1
_SUCCESS = "_SUCCESS"
_DRAINED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operation."""

    request: Request
    tree: Tree
    path: str
    namespace: Namespace
    commits_on_success: bool
    rights: Rights

    def node(self) -> Node:
        """Return the file or folder, which the client may know of."""
        node = self.tree.find(self.path)
        self.rights.look(self.tree, self.path, node)
        return self.tree.get(self.path) if node is None else node

    def file(self) -> Entry:
        """Return the entry of the file, which the client may read."""
        if self.tree.repository:
            self.rights.check("read", self.tree, self.path)
        return self.tree.file(self.path)

    @property
    def branch(self) -> BranchTree:
        """The tree, which is to be changed, unless it is not a branch or accepts no writes."""
        if not isinstance(self.tree, BranchTree):
            raise RemoteError(
                ACCESS,
                f"{self.tree.shown(self.path)} cannot be written: only branches can, as "
                "/repository/branch/path; make one with `graveler branch create NAME`",
            )
        self.tree.check_accepts()
        return self.tree

    def shown(self, name: str) -> str:
        """Return a name as the client reads it."""
        # Hadoop's client reads a name such as 05:00 as an address, and ./05:00 as a name
        java = self.request.headers.get("user-agent", "").startswith("Java/")
        return f"./{name}" if java and ":" in name else name


def _status(call: Call) -> Answer:
    node = call.node()
    return Answer.json({"FileStatus": statuses.file_status(node, writable=call.tree.writable)})


def _nodes(call: Call, after: str = "") -> Iterable[tuple[str, Node]]:
    """Return the content of a folder; for a file, the file itself without a name."""
    nodes = call.rights.known(call.tree, call.path, call.tree.below(call.path, after))
    first = next(nodes, None)
    if first is not None:
        return chain([first], nodes)
    node = call.node()
    return [] if isinstance(node, Folder) else [("", node)]


def _listing(call: Call, nodes: Iterable[tuple[str, Node]], left: int | None = None) -> Answer:
    shown = ((call.shown(name), node) for name, node in nodes)
    return Answer(content=statuses.listing(shown, left, writable=call.tree.writable))


def _list(call: Call) -> Answer:
    with _LISTS:
        return _listing(call, sorted(_nodes(call), key=itemgetter(0)))


def _list_page(call: Call) -> Answer:
    """Answer a part of a folder's content in the order of keys, in which the lake has it.

    A name does not say whether it is a file or a folder, and both may have it. A page therefore
    does not end with the file of such a pair.
    """
    after = call.request.query.get("startafter", "").removeprefix("./")
    nodes = list(islice(_nodes(call, after + "/" * _is_folder(call, after)), _PAGE + 1))
    page = nodes[:_PAGE]
    left = len(nodes) - len(page)
    if left and isinstance(page[-1][1], Entry) and _is_folder(call, page[-1][0]):
        page.pop()
    return _listing(call, page, left)


def _is_folder(call: Call, name: str) -> bool:
    path = f"{call.path}/{name}".strip("/")
    has_content = next(call.tree.below(path), None) is not None
    return bool(name) and (has_content or isinstance(call.tree.find(path), Folder))


def _summary(call: Call) -> Answer:
    node = call.node()
    if call.tree.repository:
        call.rights.check("read", call.tree, call.path, node)
    if isinstance(node, Folder):
        return Answer.json(statuses.summary(call.tree.summary(call.path)))
    return Answer.json(statuses.summary(Summary(1, 0, node.size)))


def _open(call: Call) -> Answer:
    entry = call.file()
    start = call.request.number("offset", 0)
    if start > entry.size:
        raise RemoteError(END, f"Offset={start} out of the range [0, {entry.size}]")
    length = min(call.request.number("length", entry.size), entry.size - start)
    if call.request.query.keys().isdisjoint({DATA, "offset", "length"}):
        return _redirect(call)  # Hadoop's client would drop the bytes, and ask for an offset
    stores = cast("RefTree", call.tree).view.repository
    return Answer(download=FileDownload(stores, entry, start, length))


def _redirect(call: Call) -> Answer:
    there = f"{call.request.address}&{DATA}=true"
    if call.request.flag("noredirect", default=False):
        return Answer.json({"Location": there})
    return Answer(307, headers={"Location": there})


def _blocks(call: Call) -> Answer:
    return Answer.json(statuses.block_locations(call.file()))


def _old_blocks(call: Call) -> Answer:
    return Answer.json(statuses.located_blocks(call.file()))


def _always(document: dict[str, Any]) -> "Operation":
    return lambda _: Answer.json(document)


def _access(call: Call) -> Answer:
    tree, node = call.tree, call.node()
    asked = call.request.query.get("fsaction", "")
    if "r" in asked and isinstance(node, Entry):
        call.rights.check("read", tree, call.path)
    if "w" in asked and not tree.writable:
        raise RemoteError(ACCESS, f"{tree.shown(call.path)} can only be read")
    if "w" in asked:
        call.rights.touch(tree, call.path, node)
    return Answer()


def _make_folder(call: Call) -> Answer:
    call.rights.touch(call.tree, call.path, None)
    call.branch.make_folder(call.path)
    return Answer.json({"boolean": True})


def _create(call: Call) -> Answer:
    overwrite = call.request.flag("overwrite", default=False)
    parents = call.request.flag("createparent", default=True)
    flags = {each for each in call.request.query.get("createflag", "").upper().split(",") if each}
    if "APPEND" in flags:
        raise _not_offered("APPEND")
    if flags:
        overwrite = "OVERWRITE" in flags
    check = partial(call.rights.check, "write", call.tree, call.path)
    check()
    branch, path, body = call.branch, call.path, call.request.body
    if body is None and DATA not in call.request.query:
        branch.check_create(path, overwrite=overwrite, parents=parents)
        return _redirect(call)
    if path.rpartition("/")[2] == _SUCCESS:
        return _succeed(call, body or BytesIO())
    if body is None and call.request.headers.get("content-type") == _BYTES:
        _check_emptied(branch, path)
    content = cast("BinaryIO", body or BytesIO())
    branch.create(path, content, overwrite=overwrite, parents=parents, check=check)
    return Answer(201)


def _check_emptied(branch: BranchTree, path: str) -> None:
    """Refuse to empty a file for a client that sends no body, and says that it has bytes.

    The client of fsspec begins a file so, and then appends to it, which is refused.
    """
    node = branch.find(path)
    if isinstance(node, Entry) and node.size:
        raise RemoteError(
            UNSUPPORTED,
            f"{branch.shown(path)} has {node.size} bytes and is not emptied for bytes that follow, "
            "because a lake does not append: send the whole file, or delete it first",
        )


def _succeed(call: Call, body: Body) -> Answer:
    """Handle the mark of a job that has succeeded: it is not stored, but it may start a commit."""
    branch = call.branch
    branch.check_create(call.path, overwrite=True, parents=True)
    while body.read(_DRAINED_BYTES):
        pass
    branch.check_accepts()
    folder = call.path.rpartition("/")[0]
    _check_commit(call, folder)
    if branch.mark_success(folder):
        _commit_success(call, branch, folder)
    return Answer(201)


def _check_commit(call: Call, folder: str) -> None:
    """Refuse the success of a job whose folder the client may not commit."""
    if call.commits_on_success:
        call.rights.check("write", call.tree, folder, Folder())


def _commit_success(call: Call, branch: BranchTree, folder: str) -> None:
    if call.commits_on_success:
        with suppress(NoChangesError):
            branch.commit(folder, f"write {folder or 'the whole tree'}")


def _rename(call: Call) -> Answer:
    path, node = call.path, call.tree.find(call.path)
    call.rights.touch(call.tree, path, node)
    branch = call.branch
    there, to = call.namespace.at(call.request.text("destination"), call.rights)
    if there.place != branch.place:
        raise RemoteError(
            UNSUPPORTED,
            f"{branch.shown(path)} cannot be moved to {there.shown(to)}: files are moved within "
            "one branch; `graveler cp` copies them to another one without copying bytes",
        )
    options = call.request.query.get("renameoptions", "").upper()
    if node is not None:
        within = not options and isinstance(branch.find(to), Folder)
        final = f"{to}/{path.rpartition('/')[2]}".lstrip("/") if within else to
        for action, place in (("write", path), ("read", path), ("write", final)):
            call.rights.check(action, branch, place, node)
    if not options:
        return Answer.json({"boolean": branch.rename(path, to)})
    branch.replace(path, to, overwrite="OVERWRITE" in options.split(","))
    return Answer()


def _delete(call: Call) -> Answer:
    path, node = call.path, call.tree.find(call.path)
    call.rights.touch(call.tree, path, node)
    if node is not None:
        call.rights.check("write", call.tree, path, node)
    branch = call.branch
    emptied = branch.has_succeeded(path)
    if emptied:
        _check_commit(call, path.rpartition("/")[0])
    done = branch.delete(path, recursive=call.request.flag("recursive", default=False))
    if emptied:
        _commit_success(call, branch, path.rpartition("/")[0])
    return Answer.json({"boolean": done})


def _ignore(call: Call) -> Answer:
    call.rights.touch(call.tree, call.path, call.node())
    return Answer()  # a lake has no owners, permissions and times


def _replication(call: Call) -> Answer:
    node = call.node()
    call.rights.touch(call.tree, call.path, node)
    return Answer.json({"boolean": not isinstance(node, Folder)})


def _commit(call: Call) -> Answer:
    call.rights.check("write", call.tree, call.path, Folder())
    if isinstance(call.tree.find(call.path), Entry):
        call.rights.check("write", call.tree, call.path)
    return Answer.json({"Commit": call.branch.commit(call.path, call.request.text("message"))})


Operation = Callable[[Call], Answer]

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "GETFILESTATUS"): _status,
    ("GET", "GETFILELINKSTATUS"): _status,
    ("GET", "LISTSTATUS"): _list,
    ("GET", "LISTSTATUS_BATCH"): _list_page,
    ("GET", "GETCONTENTSUMMARY"): _summary,
    ("GET", "OPEN"): _open,
    ("GET", "GETFILEBLOCKLOCATIONS"): _blocks,
    ("GET", "GET_BLOCK_LOCATIONS"): _old_blocks,
    ("GET", "GETHOMEDIRECTORY"): _always({"Path": "/"}),
    ("GET", "GETSERVERDEFAULTS"): _always(statuses.SERVER_DEFAULTS),
    # a lake knows no bounds: what Hadoop's file systems without bounds answer
    ("GET", "GETSTATUS"): _always({"FsStatus": {"capacity": _MOST, "used": 0, "remaining": _MOST}}),
    # as a cluster without Kerberos answers
    ("GET", "GETDELEGATIONTOKEN"): _always({"Token": None}),
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

_NOT_OFFERED = {
    "APPEND": "files of a lake are never changed: write the file again",
    "CONCAT": "files of a lake are never changed: write one file of the parts",
    "TRUNCATE": "files of a lake are never changed: write the file again",
    "CREATESYMLINK": "a lake has no symbolic links: copy the file, which copies no bytes",
    "GETFILECHECKSUM": "a lake has other checksums than HDFS: copy without comparing them",
}


def operation(method: str, name: str) -> Operation:
    """Return the operation of a request."""
    known = OPERATIONS.get((method, name))
    if known is not None:
        return known
    if name in _NOT_OFFERED:
        raise _not_offered(name)
    offered = sorted(each for of, each in OPERATIONS if of == method)
    # these words tell older clients to ask for GET_BLOCK_LOCATIONS
    raise RemoteError(
        ARGUMENT,
        f'Invalid value for webhdfs parameter "op": {name!r} of {method}; the server knows '
        f"{', '.join(offered) or 'nothing of this method'}",
    )


def _not_offered(name: str) -> RemoteError:
    return RemoteError(UNSUPPORTED, f"{name}: {_NOT_OFFERED[name]}")
