"""RocksDB's own tools, of Debian's package rocksdb-tools, which `make test-real` installs."""

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest


class SstDump:
    """The program ``sst_dump``. It always exits with 0; its output has the errors.

    Args:
        program: Its path.
    """

    def __init__(self, program: str) -> None:
        self._program = program

    def __call__(self, path: Path, command: str, *options: str) -> str:
        """Run a command over a table, or over the tables ``*.sst`` of a folder; return its output.

        Raises:
            AssertionError: The output has an error.
        """
        done = subprocess.run(
            [self._program, f"--file={path}", f"--command={command}", *options],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr or done.stdout
        return done.stdout

    def records(self, path: Path) -> Iterator[tuple[bytes, bytes]]:
        """Yield key and value of each record; fail if one is not a put with sequence number 0."""
        for line in self(path, "scan", "--output_hex", "--verify_checksum").splitlines():
            if "=>" in line:
                key, _, value = line.partition(" => ")
                name, _, kind = key.partition("' ")
                assert kind == "seq:0, type:1", line
                yield bytes.fromhex(name.lstrip("'")), bytes.fromhex(value)

    def properties(self, path: Path) -> dict[str, str]:
        """Return the properties of the output by their names there."""
        lines = self(path, "check", "--show_properties").splitlines()
        pairs = (line.strip().partition(": ") for line in lines)
        return {name.lstrip("# "): value for name, separator, value in pairs if separator}


def linked_tables(folder: Path, tables: Iterable[bytes]) -> Path:
    """Write tables into a folder under the names that RocksDB's tools expect; return the folder."""
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(tables):
        (folder / f"{number:06}.sst").write_bytes(data)
    return folder


@pytest.fixture(scope="session")
def sst_dump() -> SstDump:
    """RocksDB's ``sst_dump``."""
    program = shutil.which("sst_dump")
    if program is None:
        pytest.skip(
            "no sst_dump on this machine: `make test-real` as root installs Debian's "
            "rocksdb-tools, and others run `sudo apt-get install rocksdb-tools`"
        )
    return SstDump(program)
