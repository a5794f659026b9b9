"""Settings: a lake's ``graveler.toml``, and all reads of environment variables.

A lake is a folder with a ``graveler.toml``, or such a file anywhere, or ``env:NAME``: the environment
variable NAME holds the same tables as JSON. ``docs/guides/settings.md`` has all settings. The
texts of [kv], [storage], [s3] and [links] may contain ``${NAME}`` for an environment variable, or be
``{command = "…"}`` for the output of a command. A path after ``sqlite://``, ``rocksdb://`` or
``file://`` without a slash at its start is relative to the file's folder, so that a lake can be moved.
"""

import json
import os
import pwd
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graveler.base.arguments import count, expand_home
from graveler.base.privacy import (
    is_uri,
    reveal,
    shown_uri,
)
from graveler.base.retries import NO_PROGRESS_S
from graveler.errors import (
    BackendUnavailableError,
    InvalidInputError,
    NewerFormatError,
    NotFoundError,
)

CONFIG_NAME = "graveler.toml"
PREPARED = ".graveler.toml."
"""Prefix of the names of files with settings that are being written."""
ENVIRONMENT_LAKE = "env:"
"""Prefix of the location of a lake whose settings are in an environment variable."""

FORMAT = 1
_LOCAL_SCHEMES = ("sqlite", "rocksdb", "file")
_OBJECT_SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "abfs", "abfss", "http", "https")
_S3 = ("s3://", "s3a://", "s3n://")
KV_URI = "sqlite://kv.sqlite3"
STORAGE_URI = "file://objects"
_LONGEST_WAIT_S = 86_400
_CACHE_BYTES = 8 * 2**30


def environment(name: str, default: str = "") -> str:
    """Return the environment variable `name`, or `default` if it is not set."""
    return os.environ.get(name, default)


def program_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with these variables, for a program that it starts."""
    return {**os.environ, **variables}


@contextmanager
def exported(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process for a ``with`` block, then restore them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _gate_modules() -> frozenset[str]:
    named = environment("GRAVELER_GATE_MODULES").replace(",", " ")
    return frozenset(named.split())


@dataclass(frozen=True, slots=True, repr=False)
class LakeConfig:
    """The settings of one lake, paths made absolute.

    Attributes:
        location: The location of the lake, for opening it again: the folder or the file.
        kv_uri: The key-value store of refs and staged entries.
        storage_uri: The root of the objects of new repositories.
        storage_options: The options of the object store, such as the endpoint.
        link_options: The options of the stores of linked files, by place.
        cache_folder: The folder of cached ranges.
        cache_max_bytes: The maximum size of that cache.
        splitting: The given splitting policy and parameters of new repositories.
        gate_modules: Modules from which required gates may come: those of the settings, and of the
            variable GRAVELER_GATE_MODULES.
        agents_publish: The branches that sessions of agents may publish to, as ``repository:branch``.
        no_progress_s: Seconds without progress after which a call on a remote store ends.
        shared_folders: The folders that their group shares.
    """

    location: str
    kv_uri: str
    storage_uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    link_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cache_folder: Path | None = None
    cache_max_bytes: int = _CACHE_BYTES
    splitting: Mapping[str, str | int] = field(default_factory=dict)
    no_progress_s: float = NO_PROGRESS_S
    gate_modules: frozenset[str] = field(default_factory=_gate_modules)
    agents_publish: frozenset[str] = frozenset()
    shared_folders: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        kv, storage = shown_uri(self.kv_uri), shown_uri(self.storage_uri)
        return f"LakeConfig({self.location!r}, kv={kv!r}, storage={storage!r})"

    def options_of(self, uri: str) -> Mapping[str, str]:
        """Return the options of the object store at a root, which are those of its place."""
        if not uri.startswith("s3"):
            return {}
        root = f"{_plain_s3(uri)}/"
        own = max(
            (place for place in self.link_options if root.startswith(f"{place}/")), default=""
        )
        return self.link_options.get(own, self.storage_options)


def user_cache() -> Path:
    """Return graveler's folder in the user's cache folder."""
    try:
        return Path(environment("XDG_CACHE_HOME") or Path.home() / ".cache") / "graveler"
    except RuntimeError as error:  # no HOME, and no user with this id
        raise OSError(str(error)) from error


def lake_environment(location: str) -> dict[str, str]:
    """Return the variables with which a program elsewhere opens the lake at `location`.

    For a lake whose settings are in a variable, they contain its secrets.
    """
    variables = {"GRAVELER_LAKE": location}
    if is_environment_lake(location):
        name = location.removeprefix(ENVIRONMENT_LAKE)
        variables[name] = environment(name)
    return variables


def is_environment_lake(target: str | Path) -> bool:
    """Return whether `target` names an environment variable with the settings of a lake."""
    return os.fspath(target).startswith(ENVIRONMENT_LAKE)


def set_environment(name: str, value: str) -> None:
    """Set a variable for programs that this process starts, such as a JVM or Spark's workers."""
    os.environ[name] = value


def default_committer() -> str:
    """Return the default committer.

    It is the first of these that is set: GRAVELER_COMMITTER, USER, LOGNAME, or the name of the
    process's user in the system's database (a service or a container often has no USER), else "".
    """
    variables = map(os.environ.get, ("GRAVELER_COMMITTER", "USER", "LOGNAME"))
    return next(filter(None, variables), None) or _system_user(os.geteuid())


@lru_cache(maxsize=8)  # each move calls it, and the user database may be on a server
def _system_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run under a user id without a name
        return ""


def lake_path(target: str | Path) -> Path:
    """Return the absolute path of a lake, its folder or its TOML file, which may be missing."""
    text = os.fspath(target)
    if is_environment_lake(text):
        raise InvalidInputError(
            f"{text} is a lake without a folder: open it, there is nothing to make; a folder of "
            f"that name is ./{text}"
        )
    if not is_uri(text):
        return expand_home(text).absolute()
    scheme, _, rest = text.partition(":")
    if scheme.lower() == "file" and rest.startswith("///"):
        hint = f"give the path itself, {rest[2:]}"
    else:
        table = "storage" if scheme.lower() in _OBJECT_SCHEMES else "kv"
        hint = (
            f"name the folder or the {CONFIG_NAME}, and put the URI into that file, as uri of "
            f"[{table}]; `graveler init FOLDER --{table} URI` writes one"
        )
    raise InvalidInputError(
        f"{shown_uri(text)} is a URI, and a lake is a folder with a {CONFIG_NAME}: {hint}"
    )


def load_config(target: str | Path) -> LakeConfig:
    """Read the settings of the lake at `target`: a folder, a TOML file, or ``env:NAME``."""
    if is_environment_lake(target):
        location = os.fspath(target)
        return _config(_read_variable(location), file=Path(location), location=location)
    path = lake_path(target)
    return _config(_read(path), file=settings_file(path), location=str(path))


def locate_lake(target: str | Path) -> str:
    """Return the location of the lake at `target`, whose settings are not validated."""
    if is_environment_lake(target):
        _read_variable(os.fspath(target))
        return os.fspath(target)
    path = lake_path(target)
    _read(path)
    return str(path)


def _read_variable(location: str) -> Mapping[str, Any]:
    name = location.removeprefix(ENVIRONMENT_LAKE)
    text = environment(name) if name else ""
    if not text:
        raise NotFoundError(
            f"no lake {location}: the environment variable {name!r} is not set; let it hold the "
            "settings as JSON"
        )
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        settings = None  # an error of the parser would show the text
    if not isinstance(settings, dict):
        raise InvalidInputError(
            f'{location} is no JSON object: give {{"kv": {{"uri": "postgresql://…"}}, '
            '"storage": {"uri": "s3://bucket/prefix"}}'
        )
    for table, setting in (("kv", "uri"), ("storage", "uri"), ("cache", "folder")):
        if not _stands_alone(table, settings.get(table), setting):
            raise InvalidInputError(
                f"{location}: give {setting} of {table!r} an absolute path or a URI of a server; "
                "a lake without a file has no folder that a path could be relative to"
            )
    # ids name content, so all such lakes of a user share one cache
    return {
        "format": FORMAT,
        **settings,
        "cache": {**_default_cache(), **settings.get("cache", {})},
    }


def _stands_alone(table: str, settings: Any, setting: str) -> bool:
    """Return whether a table of a lake without a file names no relative path."""
    if table == "cache" and settings is None:
        return True
    value = settings.get(setting) if isinstance(settings, dict) else None
    if table == "cache":
        return isinstance(settings, dict) and (not value or expand_home(str(value)).is_absolute())
    return bool(value) and not (isinstance(value, str) and _is_relative(value))


def _default_cache() -> dict[str, str]:
    try:
        return {"folder": str(user_cache() / "ranges")}
    except OSError:
        return {"folder": ""}


def settings_file(path: Path) -> Path:
    """Return the TOML file of a lake at a path."""
    return path / CONFIG_NAME if path.suffix != ".toml" or path.is_dir() else path


def _read(path: Path) -> Mapping[str, Any]:
    file = settings_file(path)
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if path.suffix == ".toml":
            raise NotFoundError(f"no lake at {path}: there is no such file") from None
        raise NotFoundError(
            f"no lake at {path}: there is no {CONFIG_NAME}; make one with `graveler init {path}`"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{file} is not TOML: {error}") from error
    except OSError as error:
        raise BackendUnavailableError(f"no lake at {path} now: {error}") from error


def _config(raw: Mapping[str, Any], *, file: Path, location: str) -> LakeConfig:
    version = raw.get("format")
    if type(version) is int and version > FORMAT:
        raise NewerFormatError(
            f"{file} has format {version}, and this graveler knows formats up to {FORMAT}: "
            "upgrade graveler; the file was left as it is"
        )
    if type(version) is not int or version != FORMAT:
        raise InvalidInputError(
            f"{file} has format {version!r}; this graveler reads {FORMAT}: let its first line be "
            f"`format = {FORMAT}`"
        )
    if unknown := sorted(raw.keys() - _TABLES.keys() - {"format", "links"}):
        raise InvalidInputError(f"{file}: [{unknown[0]}] is not known; known are {sorted(_TABLES)}")
    tables = {
        name: _checked(raw.get(name, {}), known, f"{file}: [{name}]")
        for name, known in _TABLES.items()
    }
    folder, cache = file.parent, tables["cache"]
    storage = _absolute(tables["storage"].get("uri", STORAGE_URI), folder)
    shared = [] if is_environment_lake(location) else [folder]
    if storage.startswith("file:///"):
        shared.append(Path(storage.removeprefix("file://")))
    cache_folder = cache.get("folder", "cache")
    limits = tables["limits"]
    return LakeConfig(
        location=location,
        kv_uri=_absolute(tables["kv"].get("uri", KV_URI), folder),
        storage_uri=storage,
        storage_options=tables["s3"],
        link_options=_links(raw.get("links", {}), file),
        cache_folder=folder / expand_home(cache_folder) if cache_folder else None,
        cache_max_bytes=cache.get("max_bytes", _CACHE_BYTES),
        splitting=tables["splitting"],
        gate_modules=_gate_modules() | tables["gates"].get("modules", frozenset()),
        agents_publish=tables["agents"].get("publish", frozenset()),
        no_progress_s=limits.get("no_progress_seconds", NO_PROGRESS_S),
        shared_folders=tuple(shared) if tables["access"].get("group") else (),
    )


def _checked(table: Any, known: Mapping[str, "_Check"], what: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise InvalidInputError(f"{what} is not known as a setting: it is a table")
    if unknown := sorted(table.keys() - known.keys()):
        raise InvalidInputError(f"{what} has unknown {unknown}; known are {sorted(known)}")
    return {
        name: known[name](value, f"{what} {name}")
        for name, value in table.items()
        if value is not None  # JSON may have null for a default
    }


def _links(value: Any, file: Path) -> Mapping[str, Mapping[str, str]]:
    wrong = (
        [place for place in value if not place.startswith(_S3)]
        if isinstance(value, dict)
        else [value]
    )
    if wrong:
        raise InvalidInputError(
            f'{file}: [links] {wrong[0]!r}: give a table, [links."s3://bucket/prefix"]'
        )
    return {
        _plain_s3(place): _checked(table, _TABLES["s3"], f"{file}: [links.{place!r}]")
        for place, table in value.items()
    }


def _plain_s3(uri: str) -> str:
    return f"s3://{uri.partition('://')[2]}".rstrip("/")


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(f"{what} = {value!r}: give true or false")
    return value


def _folder(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} {value!r} is of the wrong kind: give a text")
    return value


def _names(value: Any, what: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidInputError(f"{what} {value!r}: give a list of names")
    return frozenset(value)


def _branches(value: Any, what: str) -> frozenset[str]:
    named = _names(value, what)
    if odd := sorted(name for name in named if not all(name.partition(":"))):
        raise InvalidInputError(f"{what} {odd[0]!r}: give REPOSITORY:BRANCH, as in flights:main")
    return named


def _seconds(value: Any, what: str) -> float:
    if type(value) not in {int, float} or not 0 < value <= _LONGEST_WAIT_S:
        raise InvalidInputError(f"{what} {value!r}: give a number over 0, up to {_LONGEST_WAIT_S}")
    return float(value)


def _secret(value: Any, what: str) -> str:
    """Return a text that may contain a secret, and true and false as in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    return reveal(value, what, os.environ.get)


def _uri(value: Any, what: str) -> str:
    """Return a URI, or refuse a text without a scheme, which may have a password."""
    uri = _secret(value, what)
    if "://" not in uri:
        raise InvalidInputError(
            f"{what} has no scheme with '://': give file://objects or sqlite://kv.sqlite3 for what is "
            "beside the file, or s3://bucket/prefix, postgresql://user@host/database, …"
        )
    return uri


_Check = Callable[[Any, str], Any]
_TABLES: Mapping[str, Mapping[str, _Check]] = {
    "access": {"group": _flag},
    "kv": {"uri": _uri},
    "storage": {"uri": _uri},
    "s3": dict.fromkeys(
        [
            *("endpoint_url", "region", "path_style", "role_arn", "external_id"),
            *("access_key", "secret_key", "session_token", "sse", "sse_kms_key_id"),
        ],
        _secret,
    ),
    "cache": {"folder": _folder, "max_bytes": count},
    "gates": {"modules": _names},
    "agents": {"publish": _branches},
    # the second setting is of earlier versions and has no effect
    "limits": {"no_progress_seconds": _seconds, "encoding_processes": lambda value, _: value},
    "splitting": {
        "policy": lambda value, _: str(value),
        **dict.fromkeys(
            [
                *("min_bytes", "max_bytes", "raggedness", "hard", "table_bytes", "part_bytes"),
                *("directory_bytes", "key_bytes", "hard_directories"),
            ],
            count,
        ),
    },
}
"""The settings of each table, and their checks, which get a value and its name."""


def _is_relative(uri: str) -> bool:
    scheme, separator, rest = uri.partition("://")
    return bool(separator) and scheme in _LOCAL_SCHEMES and not rest.startswith("/")


def _absolute(uri: str, folder: Path) -> str:
    if not _is_relative(uri):
        return uri
    scheme, _, rest = uri.partition("://")
    # databases decode percent-encoded paths, object stores do not
    encoded = str(folder) if scheme == "file" else quote(str(folder))
    return f"{scheme}://{encoded.rstrip('/')}/{rest}"


def toml_text(value: str) -> str:
    """Return a TOML basic string. Every escape of JSON is valid in TOML."""
    return json.dumps(value)
