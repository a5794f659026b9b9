"""Trust in a lake's settings that were found or handed over, not named: they can run commands."""

import os
import stat
import tomllib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from graveler.config import (
    ENVIRONMENT_LAKE,
    environment,
    is_environment_lake,
    lake_path,
    settings_file,
    toml_text,
)
from graveler.errors import InvalidInputError, PermissionDeniedError

_OTHERS_WRITE = 0o022


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
        f"--lake {file.parent} or GRAVELER_LAKE, or write trusted = [{toml_text(str(file.parent))}] into "
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
        status = settings_file(lake_path(location)).stat()
        return (status.st_dev, status.st_ino) if location else None
    return None
