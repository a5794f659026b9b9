"""Opening a lake: from its settings to its drivers."""

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from graveler.base.arguments import file_path, flag, text
from graveler.base.background import Background, OneThread
from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.base.privacy import GROUP_READS, PRIVATE_FILE, create_file, make_folder, share_folder
from graveler.config import (
    CONFIG_NAME,
    FORMAT,
    KV_URI,
    PREPARED,
    STORAGE_URI,
    LakeConfig,
    is_environment_lake,
    lake_path,
    load_config,
    toml_text,
)
from graveler.errors import GravelerError, InvalidInputError
from graveler.kv.registry import open_kv
from graveler.lake.lake import Lake
from graveler.objects.registry import open_store

_PATIENCE_S = 5
"""How long `init` waits for an object store. Its address may be mistyped."""


def init(
    folder: str | Path,
    *,
    kv_uri: str = KV_URI,
    storage_uri: str = STORAGE_URI,
    s3: Mapping[str, str] | None = None,
    group: bool = False,
) -> Lake:
    """Make a new lake in `folder` and open it. Both stores must answer.

    Args:
        folder: The folder; it is created if it is missing.
        kv_uri: The store of refs and staged entries: ``sqlite://kv.sqlite3``, ``rocksdb://kv``,
            ``postgresql://user@host/database``.
        storage_uri: The store of objects: ``file://objects``, ``s3://bucket/prefix``.
        s3: Settings of S3, such as ``endpoint_url`` and ``region``.
        group: The group of the folder shares the lake. Otherwise it is private to its user.

    Raises:
        InvalidInputError: The folder is a lake already, or is given as a URI, or no driver
            supports one of the two URIs.
        MissingDependencyError: The extra of a driver is not installed.
        BackendUnavailableError: The database or the object store does not answer.
        PermissionDeniedError: The object store may not be listed.
    """
    file_path(folder, "folder")
    text(kv_uri, "kv_uri"), text(storage_uri, "storage_uri")
    flag(group, "group")
    path = lake_path(folder)
    file = write_default_config(path, kv_uri=kv_uri, storage_uri=storage_uri, s3=s3, group=group)
    try:
        config = load_config(path)
        uri = config.storage_uri
        options = config.options_of(uri)
        with closing(open_store(uri, options, no_progress_s=_PATIENCE_S)) as store:
            next(iter(store.list()), None)
        return connect(config)
    except GravelerError:
        file.unlink()  # so that the call can be repeated with valid arguments
        raise


def open(target: str | Path, *, create: bool = False) -> Lake:
    """Open the lake at `target`: its folder, or a ``graveler.toml`` anywhere.

    Args:
        target: The folder or file; or ``env:NAME``, where the environment variable NAME holds
            the settings as JSON.
        create: Make a missing or empty folder a lake with the defaults: SQLite for refs and
            staging, files for objects. Do not set it on workers, where an empty folder may be a
            volume that is not mounted.

    Raises:
        NotFoundError: There is no such TOML file, or no lake and `create` is false.
        InvalidInputError: `target` is a URI, or the settings cannot be read, or `create` is set
            and the folder holds other files.
        LakeLockedError: Another process holds a lake that admits one process only (RocksDB).
        BackendUnavailableError: The file system or the database does not answer.
    """
    file_path(target, "target")
    flag(create, "create")
    if is_environment_lake(target):
        return connect(load_config(target))
    path = lake_path(target)
    if create and path.suffix != ".toml" and not (path / CONFIG_NAME).exists():
        if path.is_dir() and _holds_other_things(path):
            raise InvalidInputError(
                f"{path} is not empty and not a lake (it has no {CONFIG_NAME}): "
                "give another folder, or make it one with `graveler init`"
            )
        try:
            write_default_config(path)
        except InvalidInputError:
            if not (path / CONFIG_NAME).exists():  # otherwise another process made it
                raise
    return connect(load_config(path))


def _holds_other_things(folder: Path) -> bool:
    """Return whether a folder without settings holds other files.

    If another process is initializing the lake, the second check finds the settings.
    """
    others = [entry for entry in folder.iterdir() if not entry.name.startswith(PREPARED)]
    return bool(others) and not (folder / CONFIG_NAME).exists()


def write_default_config(
    folder: Path,
    *,
    kv_uri: str = KV_URI,
    storage_uri: str = STORAGE_URI,
    s3: Mapping[str, str] | None = None,
    group: bool = False,
) -> Path:
    """Make `folder` a lake with these settings. Return the written file.

    Raises:
        InvalidInputError: The folder is already a lake, or is a file.
    """
    file = folder / CONFIG_NAME
    text = (
        "# A graveler lake: refs and staged entries in [kv], bytes in [storage].\n"
        f"format = {FORMAT}\n\n[kv]\nuri = {toml_text(kv_uri)}\n\n"
        f"[storage]\nuri = {toml_text(storage_uri)}\n" + "\n[access]\ngroup = true\n" * group
    )
    if s3:
        text += "\n[s3]\n" + "".join(f"{name} = {toml_text(each)}\n" for name, each in s3.items())
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


def connect(
    config: LakeConfig,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    background: Background | None = None,
) -> Lake:
    """Open the lake that `config` describes; tests pass their own clock, ids and background."""
    clock = clock or SystemClock()
    for folder in config.shared_folders:
        share_folder(folder, CONFIG_NAME)
    return Lake(
        config,
        open_kv(config.kv_uri, no_progress_s=config.no_progress_s),
        clock=clock,
        ids=ids or RandomIds(clock),
        background=background or OneThread(),
        witnessed=True,
    )
