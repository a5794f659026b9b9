"""The faces of a lake, each an adapter: it makes the calls that it has, and shows their refusals.

A face is a class with a method, or an item of `CALLS`, for each call that it has. `Face.refusal` makes
a call of the table, and returns what the face showed and its message. `Face.shown` returns what the
face shows for an error of the library.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from io import BytesIO
from operator import attrgetter
from typing import Any, ClassVar, cast
from unittest.mock import patch
from urllib.parse import quote

import pytest

from graveler import errors
from graveler.cli.session import Session
from graveler.fs import GravelerFileSystem
from graveler.lake.shared import lend_lake
from graveler.server.application import Application
from graveler.server.messages import Request
from graveler.server.tokens import TokenCheck
from graveler.server.webhdfs import WebHdfs
from tests.harness.commands import invoke
from tests.refusals.scene import Scene

Call = tuple[str, ...]
"""The name of a call and its arguments. A branch ``{run}`` is that of the run of the scene."""


class Face(ABC):
    """A face of the lake of a scene.

    Attributes:
        name: Its name in the table.
        CALLS: How it makes calls that have no method.
    """

    name: ClassVar[str]
    CALLS: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @abstractmethod
    def refusal(self, call: Call) -> tuple[Any, str]:
        """Make a call, which must be refused; return what the face showed, and the message."""

    @classmethod
    @abstractmethod
    def shown(cls, error: type[errors.GravelerError]) -> Any:
        """Return what the face shows for an error of the library."""

    @classmethod
    def has(cls, name: str) -> bool:
        """Return whether the face has a call."""
        return name in cls.CALLS or hasattr(cls, name)


class Library(Face):
    """The objects of `graveler`: a refusal is an error of exactly the class."""

    name = "library"
    CALLS: ClassVar = {
        "merge": "repo.merge",
        "preview": "repo.preview_merge",
        "revert": "repo.revert",
        "cherry_pick": "repo.cherry_pick",
        "undo": "repo.undo",
        "create_branch": "repo.create_branch",
        "delete_branch": "repo.delete_branch",
        "tag": "repo.tags.create",
        "delete_tag": "repo.tags.delete",
        "create_repository": "scene.lake.create_repository",
        "delete_repository": "scene.lake.delete_repository",
        "require": "repo.gates.require",
        "publish": "run.publish",
        "show_run": "repo.runs.get",
        "abandon": "repo.runs.abandon",
        "rollback": "repo.runs.rollback",
    }

    def refusal(self, call):
        name, *arguments = call
        with pytest.raises(errors.GravelerError) as caught:
            attrgetter(self.CALLS.get(name, name))(self)(*arguments)
        return type(caught.value), str(caught.value)

    @classmethod
    def shown(cls, error):
        return error

    @property
    def repo(self):
        return self.scene.lake.repository(self.scene.name)

    @property
    def run(self):
        return self.repo.runs.attach(self.scene.handle)

    def _branch(self, name):
        return self.run if name == self.scene.names.get("run") else self.repo.branch(name)

    def put(self, branch, path):
        self._branch(branch).put(path, b"new")

    def delete(self, branch, path):
        self._branch(branch).delete(path)

    def commit(self, branch):
        self._branch(branch).commit("new")

    def commit_changes(self, branch, path):
        self.repo.branch(branch).commit_changes(deleted=[path], message="new")

    def read(self, ref, path):
        self.repo.view(ref).get(path)

    def list(self, ref, prefix):
        list(self.repo.view(ref).list(prefix))

    def log(self, ref):
        list(self.repo.log(ref))

    def diff(self, left, right):
        list(self.repo.diff(left, right))

    def reset(self, branch, to):
        self._branch(branch).reset(to)

    def protect(self, pattern, action):
        self.repo.protection.add(pattern, [action])

    def open_run(self, key, into="main"):
        self.repo.runs.open(key, into=into)

    def open_for(self, key, owner):
        self.repo.runs.open_or_attach(key, owner=owner)

    def step(self, name):
        with self.run.step(name):
            pass


class Files(Face):
    """The filesystem of fsspec: a refusal is an OSError, caused by the error of the library."""

    name = "fs"
    ERRORS: ClassVar[tuple[Any, ...]] = (
        (errors.NotFoundError, FileNotFoundError),
        (errors.AlreadyExistsError, FileExistsError),
        (errors.PermissionDeniedError, PermissionError),
        (errors.ProtectedBranchError, PermissionError),
        (errors.FencedError, PermissionError),
        (errors.RunStateError, PermissionError),
        (errors.InvalidInputError, ValueError),
        (errors.BackendUnavailableError, ConnectionError),
        (errors.RetryableError, BlockingIOError),
        (errors.CorruptionError, OSError),
    )

    def refusal(self, call):
        lake, name = self.scene.lake, call[0]
        with lend_lake(lake), pytest.raises((OSError, errors.GravelerError)) as caught:
            run = self.scene.handle or None
            fs = GravelerFileSystem(lake.location, run=run, skip_instance_cache=True)
            getattr(self, name)(fs, *call[1:])
        error = caught.value
        cause = error if isinstance(error, errors.GravelerError) else error.__cause__
        if error is not cause is not None:
            assert str(getattr(error, "filename", "")).startswith(self.scene.name)
        kinds = (kind for kind in dict(self.ERRORS).values() if isinstance(error, kind))
        return (type(cause), next(kinds, type(error))), str(error)

    @classmethod
    def shown(cls, error):
        kinds = (theirs for ours, theirs in cls.ERRORS if issubclass(error, ours))
        return error, next(kinds, error)

    def _at(self, ref, path=""):
        return "/".join(part for part in (self.scene.name, ref, path) if part)

    def put(self, fs, branch, path):
        fs.pipe_file(self._at(branch, path), b"new")

    def delete(self, fs, branch, path):
        fs.rm_file(self._at(branch, path))

    def commit(self, fs, branch):
        fs.commit(self._at(branch), "new")

    def commit_changes(self, fs, branch, path):
        with fs.transaction:
            fs.rm_file(self._at(branch, path))

    def read(self, fs, ref, path):
        fs.cat_file(self._at(ref, path))

    def list(self, fs, ref, prefix):
        fs.ls(self._at(ref, prefix))


class Commands(Face):
    """The command line with --json: a refusal is an exit code and a code of the error."""

    name = "cli"
    CALLS: ClassVar = {
        "put": f"put {__file__} {{0}}:{{1}}",
        "delete": "rm {0}:{1}",
        "commit": "commit {0} -m new",
        "read": "stat {0}:{1}",
        "list": "ls {0}:{1}",
        "log": "log {0}",
        "diff": "diff {0} {1}",
        "merge": "merge {0} {1}",
        "revert": "revert {0} {1}",
        "cherry_pick": "cherry-pick {0} {1}",
        "reset": "branch reset {0} --hard {1}",
        "undo": "undo {0}",
        "create_branch": "branch create {0} {1}",
        "delete_branch": "branch delete {0}",
        "tag": "tag create {0} {1}",
        "delete_tag": "tag delete {0}",
        "create_repository": "repo create {0}",
        "delete_repository": "repo delete {0}",
        "protect": "branch protect {0} --against {1}",
        "require": "gates require {0} {1}",
        "open_run": "run open {0} --into {1}",
        "step": "run exec --run HANDLE --step {0} -- true",
        "publish": "run publish --run HANDLE",
        "show_run": "run show {0}",
        "abandon": "run abandon {0}",
        "rollback": "run rollback {0}",
    }

    def refusal(self, call):
        name, *arguments = call
        words = self.CALLS[name].format(*arguments).split()
        words = [self.scene.handle if word == "HANDLE" else word for word in words]
        lake = property(lambda _: self.scene.lake)
        with patch.object(Session, "lake", lake):
            said = invoke("--json", "--repo", self.scene.name, *words)
        assert isinstance(said.exception, SystemExit), said.exception
        assert said.exit_code, said.output
        error = json.loads(said.stderr)["error"]
        return (said.exit_code, error["code"]), error["message"]

    @classmethod
    def shown(cls, error):
        codes = {errors.MergeConflictError: 3, errors.GateFailedError: 4}
        return codes.get(error, 1), str(error.code)


class Gateway(Face):
    """The server, without its sockets: a refusal is a status and the name of an exception."""

    name = "server"
    ERRORS: ClassVar = (
        (errors.NotFoundError, 404, "FileNotFoundException"),
        (errors.AlreadyExistsError, 403, "FileAlreadyExistsException"),
        (errors.PermissionDeniedError, 403, "AccessControlException"),
        (errors.ProtectedBranchError, 403, "AccessControlException"),
        (errors.FencedError, 403, "AccessControlException"),
        (errors.InvalidInputError, 400, "IllegalArgumentException"),
        (errors.RetryableError, 503, "RetriableException"),
        (errors.GravelerError, 403, "IOException"),
    )
    TOKEN = "grav-of-the-refusals"
    CALLS: ClassVar = {
        "put": ("PUT", "CREATE", "overwrite=true"),
        "delete": ("DELETE", "DELETE", ""),
        "commit": ("POST", "COMMIT", "message=new"),
        "read": ("GET", "OPEN", ""),
        "list": ("GET", "LISTSTATUS", ""),
        "make_folder": ("PUT", "MKDIRS", ""),
    }

    def refusal(self, call):
        name, *place = call
        method, op, query = self.CALLS[name]
        surface = WebHdfs(
            self.scene.lake, read_only=not self.scene.writable, commits_on_success=False
        )
        path = quote("/".join(["/webhdfs/v1", self.scene.name, *place]))
        target = f"{path}?op={op}&user.name={self.TOKEN}&data=true&{query}"
        body = BytesIO(b"new") if op == "CREATE" else None
        request = Request(method, target, {"host": "x"}, body)
        answer = Application(TokenCheck(self.TOKEN, self.scene.lake.iam.access), [surface]).answer(
            request, lambda: None
        )
        refused = json.loads(answer.content)["RemoteException"]
        return (answer.status, refused["exception"]), cast("str", refused["message"])

    @classmethod
    def shown(cls, error):
        shapes = ((status, name) for ours, status, name in cls.ERRORS if issubclass(error, ours))
        return next(shapes)


FACES: tuple[type[Face], ...] = (Library, Files, Commands, Gateway)
