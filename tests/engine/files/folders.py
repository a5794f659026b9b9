"""Local folders for upload and download, on each kind of store."""

import os

import pytest

everywhere = pytest.mark.parametrize(
    "lake", ["memory-memory", "sqlite-local", "sqlite-s3"], indirect=True
)
FILES = {
    "a": "1",
    "sub/b": "2",
    "sub/deep/c": "3",
    "sub.txt": "4",
    ".hidden/.d": "5",
    "größe ü": "",
}


def rewrite(file, content):
    """Write a file in place, and set its time back, as some programs do."""
    before = file.stat()
    file.write_bytes(content)
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of files is coarse
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
