"""Reads of a large file that verify its bytes."""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import graveler
from graveler.reads.view import View
from tests.bench.measure import Result, alternate, at_most, ms, progress

SIZE = 64 << 20
PIECE = 1 << 20
TIMES = 9
LIMIT = 1.2  # 1.01 on an idle machine; bytes that are hashed twice take 1.5 and more


def reads(folder: Path) -> list[Result]:
    """Compare verified reads of 64 MiB with a bare read and a bare SHA-256 of the same file."""
    with graveler.init(folder / "reads") as lake:
        repo = lake.create_repository("bench")
        main = repo.branch("main")
        entry = main.put("large", os.urandom(SIZE))
        main.commit("a large file")
        file = repo.stores.objects.local_file(entry.address)
        assert file is not None
        whole = _compared("get of 64 MiB, verified", lambda: main.get("large"), lambda: _bare(file))
        pieces = _compared(
            "open and read of 64 MiB in pieces of 1 MiB, verified",
            lambda: _streamed(main),
            lambda: _bare_pieces(file),
        )
    return [whole, pieces]


def _compared(name: str, read: Callable[[], object], bare: Callable[[], object]) -> Result:
    progress(name)
    for call in (read, bare):
        call()
    seconds, reference = alternate(read, bare, TIMES)
    return at_most(
        name,
        seconds / reference,
        LIMIT,
        "a bare read and a bare SHA-256",
        f"{ms(seconds)} and {ms(reference)}, medians of {TIMES}",
    )


def _bare(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _bare_pieces(file: Path) -> str:
    digest = sha256()
    with file.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _streamed(view: View) -> None:
    with view.open("large") as stream:
        while stream.read(PIECE):
            pass
