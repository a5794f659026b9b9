"""A RocksDB folder that this process may not write to, read by way of links to its files.

RocksDB itself reads such a folder, but rocksdict keeps a note of its own beside the files, and
writes it whenever it opens one.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from rocksdict import AccessType, Options, Rdict

from graveler.errors import LakeLockedError

_LEFT_OUT: Final = ("LOCK", "LOG", "rocksdict-config.json")


class LinkedReader:
    """An open folder, read as it was when it was opened.

    Attributes:
        db: Refuses every write.

    Raises:
        LakeLockedError: Another process has the folder open: what it writes would be missing.
    """

    def __init__(self, folder: Path, options: Options) -> None:
        _check_unlocked(folder)
        self._links = Path(tempfile.mkdtemp(prefix="graveler-kv-"))
        self._process = os.getpid()
        try:
            for file in folder.iterdir():
                if file.name not in _LEFT_OUT and not file.name.startswith("LOG.old"):
                    (self._links / file.name).symlink_to(file)
            self.db = Rdict(str(self._links), options, access_type=AccessType.read_only())
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the links, when `db` is closed."""
        if self._process == os.getpid():  # else they are the parent's
            shutil.rmtree(self._links, ignore_errors=True)


def _check_unlocked(folder: Path) -> None:
    try:
        descriptor = os.open(folder / "LOCK", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # perhaps being restored from a backup: no process has it open
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        raise LakeLockedError(
            f"{folder}: another process has it open, and RocksDB lets one process into a folder: "
            "close it there, or use SQLite or PostgreSQL for several processes"
        ) from error
    finally:
        os.close(descriptor)
