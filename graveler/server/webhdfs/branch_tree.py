"""The tree of a branch, with the writes of HDFS.

A file is staged on the branch when all its bytes are stored. A lake cannot represent empty folders
and the files in the working folders of jobs, so the server keeps them in memory. The bytes of
these files are stored, but their paths are not. A file that leaves such a folder is staged then.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from glob import escape
from heapq import merge
from itertools import chain
from threading import RLock

from graveler.model import Entry
from graveler.objects.store import Body
from graveler.repository.branch import Branch, writes_of
from graveler.server.webhdfs.errors import (
    ACCESS,
    EXISTS,
    IO,
    NOT_EMPTY,
    NOT_FOUND,
    PARENT,
    UNSUPPORTED,
    RemoteError,
)
from graveler.server.webhdfs.memory import Folder, is_working
from graveler.server.webhdfs.tree import Node, RefTree, Summary, key_of, summed


@dataclass(slots=True)
class Memory:
    """The folders and files of one branch that are kept in memory."""

    root: Folder = field(default_factory=Folder)
    succeeded: set[str] = field(default_factory=set)
    lock: RLock = field(default_factory=RLock)


class BranchTree(RefTree):
    """A branch that one request can write."""

    def __init__(self, place: str, branch: Branch, memory: Memory, *, writable: bool) -> None:
        super().__init__(place, branch, branch.name)
        self.writable = writable
        self._branch = branch
        self._writes = writes_of(branch)
        self._memory = memory.root
        self._succeeded = memory.succeeded
        self._lock = memory.lock

    def check_accepts(self) -> None:
        """Refuse a write if the branch accepts none, or the server only reads."""
        if not self.writable:
            told = "cannot be written: the server was started with --read-only"
            raise RemoteError(ACCESS, f"{self.place} {told}")
        self._writes.check()

    def find(self, path: str) -> Node | None:
        """Return the file or folder at a path, or None."""
        node = self._memory.find(path)
        return super().find(path) if node is None else node

    def below(self, path: str, after: str = "") -> Iterator[tuple[str, Node]]:
        """Yield the direct content of a folder in the order of `key_of`."""
        kept = self._memory.find(path)
        children = list(kept.children.items()) if isinstance(kept, Folder) else []
        mine = sorted((item for item in children if key_of(item) > after), key=key_of)
        before = None
        for item in merge(super().below(path, after), mine, key=key_of):
            if key_of(item) != before:
                before = key_of(item)
                yield item

    def summary(self, path: str) -> Summary:
        """Return the number and size of the files and folders at and below the path of a folder."""
        prefix = f"{path}/" if path else ""
        kept = self._memory.find(path)
        staged = ((entry.path, entry) for entry in self.view.entries(prefix))
        return summed(path, chain(staged, kept.walk(path) if isinstance(kept, Folder) else ()))

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""
        with self._lock:
            node = self.find(path)
            if isinstance(node, Entry):
                raise RemoteError(EXISTS, f"Path is not a directory: {self.shown(path)}")
            if node is None:
                self._check_above(path)
                self._memory.make(path)

    def check_create(self, path: str, *, overwrite: bool, parents: bool) -> None:
        """Refuse a file that cannot be made."""
        node = self.find(path)
        if isinstance(node, Folder):
            raise RemoteError(EXISTS, f"{self.shown(path)} already exists as a directory")
        if isinstance(node, Entry):
            if not overwrite:
                raise RemoteError(EXISTS, f"{self.shown(path)} already exists; set overwrite=true")
            return
        self._check_above(path)
        parent = _parent(path)
        if not parents and self.find(parent) is None:
            raise RemoteError(NOT_FOUND, f"Parent directory doesn't exist: {self.shown(parent)}")

    def create(
        self,
        path: str,
        body: Body,
        *,
        overwrite: bool,
        parents: bool,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a file of a whole body; nothing is visible before the body has been read.

        Args:
            check: Called when it was read; an error of it ends the call.
        """
        self.check_create(path, overwrite=overwrite, parents=parents)
        entry = self._writes.upload(path, body, "", {})
        check()
        with self._lock:
            self.check_create(path, overwrite=overwrite, parents=parents)
            if is_working(path):
                self._writes.check()  # the branch may be gone by now
                self._memory.put(path, entry)
            else:
                self._writes.stage([entry])
                self._settle(_parent(path))

    def rename(self, path: str, to: str) -> bool:
        """Move a file or a folder: into `to` if that is a folder."""
        self._check_no_root(path, "moved")
        with self._lock:
            node = self.find(path)
            if isinstance(self.find(to), Folder):
                to = f"{to}/{_name(path)}" if to else _name(path)
            if node is None or f"{to}/".startswith(f"{path}/"):
                return isinstance(node, Entry) and to == path
            if self.find(to) is not None or not isinstance(self.find(_parent(to)), Folder):
                return False
            self._move(node, path, to)
            return True

    def replace(self, path: str, to: str, *, overwrite: bool) -> None:
        """Move a file or a folder to exactly `to`."""
        self._check_no_root(path, "moved")
        self._check_no_root(to, "replaced")
        with self._lock:
            node = self.get(path)
            self._check_target(path, to)
            there = self.find(to)
            if there is not None:
                self._check_replaceable(node, there, to, overwrite=overwrite)
            self._move(node, path, to)
            if isinstance(there, Folder) and isinstance(node, Folder):
                self._settle(to)

    def _check_target(self, path: str, to: str) -> None:
        if path == to:
            raise RemoteError(EXISTS, f"The source {self.shown(path)} and destination are the same")
        if to.startswith(f"{path}/"):
            raise RemoteError(
                IO, f"Rename destination {self.shown(to)} is a directory or file under {path}"
            )
        parent = _parent(to)
        above = self.find(parent)
        if above is None:
            raise RemoteError(
                NOT_FOUND, f"rename destination parent {self.shown(parent)} not found"
            )
        if isinstance(above, Entry):
            raise RemoteError(PARENT, f"rename destination parent {self.shown(parent)} is a file")

    def _check_replaceable(self, node: Node, there: Node, to: str, *, overwrite: bool) -> None:
        if not overwrite:
            raise RemoteError(EXISTS, f"rename destination {self.shown(to)} already exists")
        if isinstance(node, Folder) != isinstance(there, Folder):
            raise RemoteError(IO, f"{self.shown(to)} and its source must both be files or folders")
        if isinstance(there, Folder) and self._has_content(to):
            raise RemoteError(IO, f"rename destination directory is not empty: {self.shown(to)}")

    def delete(self, path: str, *, recursive: bool) -> bool:
        """Delete a file, or a folder with everything below it; return whether it existed."""
        self._check_no_root(path, "deleted")
        with self._lock:
            node = self.find(path)
            if node is None:
                return False
            if isinstance(node, Folder):
                if not recursive and self._has_content(path):
                    raise RemoteError(
                        NOT_EMPTY, f"`{self.shown(path)} is non empty': Directory is not empty"
                    )
                self._branch.delete_many(entry.path for entry in self.view.entries(f"{path}/"))
            elif self._memory.find(path) is None:
                self._branch.delete(path)
            self._memory.remove(path)
            self._succeeded.discard(path)
            self._settle(_parent(path))
            return True

    def mark_success(self, folder: str) -> bool:
        """Note that the job of a folder has succeeded; return False for a working folder."""
        if not is_working(folder):
            return True
        self._succeeded.add(folder)
        return False

    def has_succeeded(self, folder: str) -> bool:
        """Return whether a folder is a working folder of a succeeded job, without files now."""
        kept = self._memory.find(folder)
        return folder in self._succeeded and not (
            isinstance(kept, Folder) and any(isinstance(node, Entry) for _, node in kept.walk())
        )

    def commit(self, path: str, message: str) -> dict[str, str]:
        """Commit the staged writes at and below a path, and return the commit's fields."""
        paths: Iterable[str] | None = None
        if path:
            paths = [escape(path), f"{escape(path)}/"]
        made = self._branch.commit(message, paths=paths)
        return {"id": made.id, "message": made.message, "branch": self._branch.name}

    def _has_content(self, path: str) -> bool:
        return next(self.below(path), None) is not None

    def _move(self, node: Node, path: str, to: str) -> None:
        """Move a file or folder to a free path; no byte is copied."""
        if is_working(to) and not is_working(path) and self._is_staged(node, path):
            raise RemoteError(
                UNSUPPORTED,
                f"{self.shown(path)} cannot be moved to {self.shown(to)}: files in the working "
                "folder of a job are kept in memory, and these would be lost with the gateway",
            )
        kept = self._memory.find(path)
        if isinstance(node, Entry):
            self._move_file(node, to, staged=kept is None, path=path)
        else:
            if self.view.has_below(f"{path}/"):
                self._branch.move(f"{path}/", f"{to}/")
            self._bring_in(kept if isinstance(kept, Folder) else Folder(), to)
        self._memory.remove(path)
        self._settle(_parent(path))
        self._settle(_parent(to))

    def _is_staged(self, node: Node, path: str) -> bool:
        if isinstance(node, Folder):
            return self.view.has_below(f"{path}/")
        return self._memory.find(path) is None

    def _move_file(self, entry: Entry, to: str, *, staged: bool, path: str) -> None:
        if is_working(to):
            self._memory.put(to, entry)
            return
        self._branch.link_many([replace(entry, path=to)])
        if staged:
            self._branch.delete(path)

    def _bring_in(self, kept: Folder, to: str) -> None:
        """Put a folder in memory at its new path; files that leave working folders are staged."""
        if is_working(to):
            self._memory.put(to, kept)
            return
        staged = []
        for below, node in kept.walk():
            place = f"{to}/{below}"
            if isinstance(node, Folder):
                self._memory.make(place)
            elif is_working(place):
                self._memory.put(place, node)
            else:
                staged.append(replace(node, path=place))
        self._memory.make(to)
        if staged:
            self._branch.link_many(staged)
        for folder in {_parent(entry.path) for entry in staged} | {to}:
            self._settle(folder)

    def _settle(self, path: str) -> None:
        """Keep a folder in memory only if it is empty."""
        while path:
            kept = self._memory.find(path)
            if isinstance(kept, Folder) and kept.children:
                return
            if not self.view.has_below(f"{path}/"):
                self._memory.make(path)
                return
            if kept is None:
                return
            self._memory.remove(path)
            path = _parent(path)

    def _check_above(self, path: str) -> None:
        """Refuse a path below a file."""
        above = []
        parent = _parent(path)
        while parent and not isinstance(self._memory.find(parent), Folder):
            above.append(parent)
            parent = _parent(parent)
        kept = (each for each in above if isinstance(self._memory.find(each), Entry))
        found = (entry.path for entry in self.view.stat_many(above) if entry is not None)
        file = next(iter([*kept, *found]), None)
        if file is not None:
            raise RemoteError(PARENT, f"Parent path is not a directory: {self.shown(file)}")

    def _check_no_root(self, path: str, done: str) -> None:
        if not path:
            raise RemoteError(
                ACCESS, f"{self.place} is a branch, and cannot be {done}: name what is in it"
            )


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
