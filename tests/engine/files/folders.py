"""Local folders for upload and download, on each kind of store."""

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
