"""Settings: a lake's ``graveler.toml``, and all reads of environment variables.

A lake is a folder with a ``graveler.toml``, or such a file anywhere::

    format = 1

    [kv]                                 # optional: without it, as here
    uri = "sqlite://kv.sqlite3"          # or rocksdb://kv, postgresql://, mysql://, dynamodb://

    [storage]                            # optional: without it, as here
    uri = "file://objects"               # where new repositories go: a folder, or s3://bucket/prefix

    [s3]                                 # optional, all of it
    endpoint_url = "https://minio.example:9000"
    region = "us-east-1"

    [links."s3://elsewhere/landing"]     # optional: a place of linked files,
    endpoint_url = "https://s3.example"  # if its settings differ from [s3]

    [access]
    group = true                         # optional: the group of the lake's folder shares it

    [cache]
    folder = "cache"                     # ranges kept on local disk
    max_bytes = 8589934592               # about 30 million entries

    [limits]
    no_progress_seconds = 30             # after which a call on a remote store ends
    encoding_processes = 3               # of a write of 500,000 entries or more; 0: none

    [gates]
    modules = ["flights.checks"]         # code that branches may require as gates

    [splitting]                          # of new repositories
    policy = "directory"
    max_bytes = 4194304

The texts of [kv], [storage], [s3] and [links] may contain ``${NAME}`` for an environment variable,
or be ``{command = "…"}`` for the output of a command. So the file needs no secrets::

    uri = "postgresql://graveler:${LAKE_PASSWORD}@db.example/lake"
    secret_key = {command = "pass show lake/s3"}

A path after ``sqlite://``, ``rocksdb://`` or ``file://`` without a slash at its start is relative
to the file's folder, so that a lake can be moved.

A lake without a file is ``env:NAME``: the environment variable NAME holds the same tables as JSON::

    PROD_LAKE='{"kv": {"uri": "postgresql://…"}, "storage": {"uri": "s3://bucket/lake"}}'
"""

import json
import os
import pwd
import stat
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graveler.base.arguments import count, expand_home
from graveler.base.privacy import (
    GROUP_READS,
    PRIVATE_FILE,
    create_file,
    is_uri,
    make_folder,
    reveal,
    shown_uri,
)
from graveler.base.retries import NO_PROGRESS_S
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    NewerFormatError,
    NotFoundError,
    PermissionDeniedError,
)

CONFIG_NAME = "graveler.toml"
PREPARED = ".graveler.toml."
"""Prefix of the names of files with settings that are being written."""
ENVIRONMENT_LAKE = "env:"
"""Prefix of the location of a lake whose settings are in an environment variable."""

_FORMAT = 1
_OTHERS_WRITE = 0o022
_LOCAL_SCHEMES = ("sqlite", "rocksdb", "file")
_OBJECT_SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "abfs", "abfss", "http", "https")
_S3 = ("s3://", "s3a://", "s3n://")
KV_URI = "sqlite://kv.sqlite3"
STORAGE_URI = "file://objects"
_LONGEST_WAIT_S = 86_400
_ENCODING_PROCESSES = 3
_MOST_PROCESSES = 64
_CACHE_BYTES = 8 * 2**30
_KNOWN: Mapping[str, frozenset[str]] = {
    "access": frozenset({"group"}),
    "kv": frozenset({"uri"}),
    "storage": frozenset({"uri"}),
    "s3": frozenset(
        {
            *("endpoint_url", "region", "path_style", "role_arn", "external_id"),
            *("access_key", "secret_key", "session_token", "sse", "sse_kms_key_id"),
        }
    ),
    "cache": frozenset({"folder", "max_bytes"}),
    "gates": frozenset({"modules"}),
    "limits": frozenset({"no_progress_seconds", "encoding_processes"}),
    "splitting": frozenset(
        {
            "policy",
            "min_bytes",
            "max_bytes",
            "raggedness",
            "hard",
            "table_bytes",
            "part_bytes",
            "directory_bytes",
            "key_bytes",
            "hard_directories",
        }
    ),
}


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
        no_progress_s: Seconds without progress after which a call on a remote store ends.
        encoding_processes: The maximum number of additional processes that encode the ranges of a
            large write.
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
    encoding_processes: int = _ENCODING_PROCESSES
    gate_modules: frozenset[str] = field(default_factory=_gate_modules)
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
    """Return graveler's folder in the user's cache folder.

    Raises:
        OSError: The user has no home.
    """
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
    named = environment("GRAVELER_COMMITTER") or environment("USER") or environment("LOGNAME")
    return named or _system_user(os.geteuid())


@lru_cache(maxsize=8)  # each move calls it, and the user database may be on a server
def _system_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run under a user id without a name
        return ""


def lake_path(target: str | Path) -> Path:
    """Return the absolute path of a lake, its folder or its TOML file, which may be missing.

    Raises:
        InvalidInputError: `target` is a URI, or names an environment variable.
    """
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
        way_out = f"give the path itself, {rest[2:]}"
    else:
        table = "storage" if scheme.lower() in _OBJECT_SCHEMES else "kv"
        way_out = (
            f"name the folder or the {CONFIG_NAME}, and put the URI into that file, as uri of "
            f"[{table}]; `graveler init FOLDER --{table} URI` writes one"
        )
    raise InvalidInputError(
        f"{shown_uri(text)} is a URI, and a lake is a folder with a {CONFIG_NAME}: {way_out}"
    )


def load_config(target: str | Path) -> LakeConfig:
    """Read the settings of the lake at `target`: a folder, a TOML file, or ``env:NAME``.

    Raises:
        NotFoundError: The lake does not exist.
        InvalidInputError: `target` is a URI, or the settings are invalid.
        BackendUnavailableError: The file cannot be read at present, or the command of a setting
            failed.
    """
    if is_environment_lake(target):
        location = os.fspath(target)
        return _config(_read_variable(location), file=Path(location), location=location)
    path = lake_path(target)
    return _config(_read(path), file=_file(path), location=str(path))


def locate_lake(target: str | Path) -> str:
    """Return the location of the lake at `target`, whose settings are not validated.

    Raises:
        NotFoundError: The lake does not exist.
        InvalidInputError: `target` is a URI, or the file is not TOML.
        BackendUnavailableError: The file cannot be read at present.
    """
    if is_environment_lake(target):
        _read_variable(os.fspath(target))
        return os.fspath(target)
    path = lake_path(target)
    _read(path)
    return str(path)


def check_same_lake(named: str, handed: str) -> None:
    """Refuse the handle of a run of another lake than the one that the user names.

    A location that does not exist here says nothing: another machine may mount the lake elsewhere.
    """
    one, other = _identity(named), _identity(handed)
    if None not in {one, other} and one != other:
        raise InvalidInputError(
            f"the run's handle (GRAVELER_RUN) is of the lake {handed}, and --lake or GRAVELER_LAKE names "
            f"{named}: name the lake of the run, or none"
        )


def _identity(location: str) -> object:
    if is_environment_lake(location):
        return location if environment(location.removeprefix(ENVIRONMENT_LAKE)) else None
    with suppress(OSError):
        status = _file(lake_path(location)).stat()
        return (status.st_dev, status.st_ino) if location else None
    return None


def check_owner(file: Path) -> None:
    """Refuse settings that were found, not named, and that another user than root can change or replace.

    The user's own ``graveler/config.toml`` may trust their folder, by ``trusted = ["/srv/lake"]``.
    """
    status, folder = file.stat(), file.parent.stat()
    owners = {status.st_uid, file.lstat().st_uid, folder.st_uid} - {os.geteuid(), 0}
    # in a folder that everyone may write, another file can take its name, unless the folder is sticky
    replaceable = folder.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH
    written = status.st_mode & _OTHERS_WRITE or replaceable
    if not (owners or written) or str(file.parent) in _trusted():
        return
    who = f"user id {min(owners)} owns it" if owners else "other users may write it"
    who += " or its folder"
    raise PermissionDeniedError(
        f"{file} was found in a folder above, and {who}: it could run commands as you. Name the lake with "
        f"--lake {file.parent} or GRAVELER_LAKE, or write trusted = [{_quoted(str(file.parent))}] into "
        f"{_user_settings()}"
    )


def _user_settings() -> Path:
    return Path(environment("XDG_CONFIG_HOME") or "~/.config").expanduser() / "graveler/config.toml"


def _trusted() -> Collection[str]:
    try:
        with _user_settings().open("rb") as file:
            status = os.fstat(file.fileno())
            mine = status.st_uid in {os.geteuid(), 0} and not status.st_mode & _OTHERS_WRITE
            return tomllib.load(file).get("trusted", []) if mine else []
    except (OSError, RuntimeError, ValueError):  # missing, without a home, or no TOML
        return []


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
        "format": _FORMAT,
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


def _file(path: Path) -> Path:
    return path / CONFIG_NAME if path.suffix != ".toml" or path.is_dir() else path


def _read(path: Path) -> Mapping[str, Any]:
    file = _file(path)
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
    if type(version) is int and version > _FORMAT:
        raise NewerFormatError(
            f"{file} has format {version}, and this graveler knows formats up to {_FORMAT}: "
            "upgrade graveler; the file was left as it is"
        )
    if type(version) is not int or version != _FORMAT:
        raise InvalidInputError(
            f"{file} has format {version!r}; this graveler reads {_FORMAT}: let its first line be "
            f"`format = {_FORMAT}`"
        )
    tables: dict[str, Mapping[str, Any]] = {}
    links: Mapping[str, Mapping[str, str]] = {}
    for name, value in raw.items():
        if name == "format":
            continue
        if name == "links":
            links = _links(value, file)
            continue
        known = _KNOWN.get(name)
        if known is None or not isinstance(value, dict):
            raise InvalidInputError(f"{file}: [{name}] is not known; known are {sorted(_KNOWN)}")
        if unknown := sorted(set(value) - known):
            raise InvalidInputError(
                f"{file}: [{name}] has unknown {unknown}; known are {sorted(known)}"
            )
        tables[name] = value
    folder = file.parent
    cache = tables.get("cache", {})
    cache_folder = cache.get("folder", "cache")
    try:
        return LakeConfig(
            location=location,
            kv_uri=_absolute(_revealed(tables, "kv", "uri", KV_URI, file), folder),
            storage_uri=_absolute(_revealed(tables, "storage", "uri", STORAGE_URI, file), folder),
            storage_options={
                name: _revealed(tables, "s3", name, "", file) for name in tables.get("s3", {})
            },
            link_options=links,
            cache_folder=folder / expand_home(cache_folder) if cache_folder else None,
            cache_max_bytes=count(
                cache.get("max_bytes", _CACHE_BYTES), f"{file}: [cache] max_bytes"
            ),
            splitting={
                name: str(value)
                if name == "policy"
                else count(value, f"{file}: [splitting] {name}")
                for name, value in tables.get("splitting", {}).items()
            },
            gate_modules=_gate_modules() | _names(tables.get("gates", {}).get("modules", [])),
            no_progress_s=_seconds(tables.get("limits", {}).get("no_progress_seconds")),
            encoding_processes=_processes(tables.get("limits", {}).get("encoding_processes")),
            shared_folders=_shared(tables, file, location),
        )
    except GravelerError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{file}: a setting is of the wrong kind ({error}): give texts for uri and folder, "
            "whole numbers for sizes"
        ) from None


def _links(value: Any, file: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the options of foreign places, by place."""
    if not isinstance(value, dict):
        raise InvalidInputError(
            f'{file}: [links] is not a table: give [links."s3://bucket/prefix"]'
        )
    options = {}
    for place, table in value.items():
        if not place.startswith(_S3) or not isinstance(table, dict):
            raise InvalidInputError(
                f'{file}: [links] {place!r}: give a table, [links."s3://bucket/prefix"]'
            )
        if unknown := sorted(set(table) - _KNOWN["s3"]):
            raise InvalidInputError(
                f"{file}: [links.{place!r}] has unknown {unknown}; known are {sorted(_KNOWN['s3'])}"
            )
        options[_plain_s3(place)] = {
            name: _revealed(value, place, name, "", file) for name in table
        }
    return options


def _plain_s3(uri: str) -> str:
    return f"s3://{uri.partition('://')[2]}".rstrip("/")


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"[gates] modules {value!r}: give a list of names")
    return frozenset(value)


def _shared(tables: Mapping[str, Mapping[str, Any]], file: Path, location: str) -> tuple[Path, ...]:
    """Return the folders that a group shares: that of the lake, and that of its objects."""
    value = tables.get("access", {}).get("group", False)
    if not isinstance(value, bool):
        raise TypeError(f"group = {value!r}: give true or false")
    uri = _absolute(_revealed(tables, "storage", "uri", STORAGE_URI, file), file.parent)
    folders = [] if is_environment_lake(location) else [file.parent]
    if uri.startswith("file:///"):
        folders.append(Path(uri.removeprefix("file://")))
    return tuple(folders) if value else ()


def _seconds(value: Any) -> float:
    if value is None:
        return NO_PROGRESS_S
    if type(value) not in {int, float} or not 0 < value <= _LONGEST_WAIT_S:
        raise ValueError(
            f"no_progress_seconds {value!r}: give a number over 0, up to {_LONGEST_WAIT_S}"
        )
    return float(value)


def _processes(value: Any) -> int:
    if value is None:
        return _ENCODING_PROCESSES
    if type(value) is not int or not 0 <= value <= _MOST_PROCESSES:
        raise ValueError(f"encoding_processes {value!r}: give 0 to {_MOST_PROCESSES}")
    return value


def _revealed(
    tables: Mapping[str, Mapping[str, Any]], table: str, name: str, default: str, file: Path
) -> str:
    """Return a text that may contain a secret, and true and false as in TOML."""
    value = tables.get(table, {}).get(name, default)
    if isinstance(value, bool):
        return str(value).lower()
    text = reveal(value, f"{file}: [{table}] {name}", os.environ.get)
    return _schemed(text, f"{file}: [{table}] {name}") if name == "uri" else text


def _schemed(uri: str, what: str) -> str:
    """Return a URI, or refuse a text without a scheme, which may have a password."""
    if "://" not in uri:
        raise InvalidInputError(
            f"{what} has no scheme with '://': give file://objects or sqlite://kv.sqlite3 for what is "
            "beside the file, or s3://bucket/prefix, postgresql://user@host/database, …"
        )
    return uri


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


def write_default_config(
    folder: Path, *, kv_uri: str = KV_URI, storage_uri: str = STORAGE_URI, group: bool = False
) -> Path:
    """Make `folder` a lake with these settings. Return the written file.

    Raises:
        InvalidInputError: The folder is already a lake, or is a file.
    """
    file = folder / CONFIG_NAME
    text = (
        "# A graveler lake: refs and staged entries in [kv], bytes in [storage].\n"
        f"format = {_FORMAT}\n\n[kv]\nuri = {_quoted(kv_uri)}\n\n"
        f"[storage]\nuri = {_quoted(storage_uri)}\n" + "\n[access]\ngroup = true\n" * group
    )
    try:
        make_folder(folder)
        # atomic: a process that opens the folder at the same moment must not read half a file
        prepared = folder / f"{PREPARED}{os.urandom(8).hex()}"
        try:
            create_file(prepared)  # private, because it may contain a password
            prepared.chmod(GROUP_READS if group else PRIVATE_FILE)
            with prepared.open("w", encoding="utf-8") as output:
                output.write(text)
                output.flush()
                os.fsync(output.fileno())
            file.hardlink_to(prepared)
        finally:
            prepared.unlink(missing_ok=True)
    except FileExistsError:
        reason = "is a lake already" if file.exists() else "is a file: give a folder"
        raise InvalidInputError(f"{folder} {reason}") from None
    return file


def _quoted(value: str) -> str:
    """Return a TOML basic string. Every escape of JSON is valid in TOML."""
    return json.dumps(value)
