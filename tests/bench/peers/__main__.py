"""Everyday jobs by graveler and its peers, each in a new process: `python -m tests.bench.peers [PIECES [TURNS]]`.

A tree has 10,000 pieces of 1 KB. A piece is a file, in Icechunk a chunk, in a table a file of one partition. All
settings are the defaults. Systems that are not installed are left out. The seconds are medians of turns in which the
systems alternate, and the ratios are to graveler in the same turn.
"""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

BODY = b"x" * 1000


def graveler(job: str, pieces: int, turn: int) -> object:
    """A lake on SQLite and a folder."""
    import graveler as library

    lake = library.open("lake", create=True)
    if job == "make":
        main = lake.create_repository("bench").branch("main")
        main.put_many((f"data/{name:05}", BODY) for name in range(pieces))
        return main.commit("all")
    repo = lake.repository("bench")
    if job == "read":
        return repo.ref("main").get(f"data/{turn:05}")
    new = job == "branch"
    branch = repo.create_branch(f"b{turn}", source="main") if new else repo.branch("main")
    branch.put(f"data/{turn:05}", f"{job} {turn}".encode())
    branch.commit("one")
    return new and repo.merge(branch.name, into="main")


def dvc(job: str, pieces: int, turn: int) -> object:
    """Git, and a folder that DVC tracks as a whole."""
    from dvc.api import read
    from dvc.cli import main

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    if job == "read":
        return read(f"data/{turn:05}", repo=".", rev="main", mode="rb")
    if job == "make":
        git("init", "-q", "-b", "main")
        main(["init", "-q"])
        Path("data").mkdir()
        for name in range(pieces):
            Path(f"data/{name:05}").write_bytes(BODY)
    else:
        if job == "branch":
            git("checkout", "-q", "-b", f"b{turn}")
        Path(f"data/{turn:05}").write_text(f"{job} {turn}")
    assert main(["add", "-q", "data"]) == 0
    git("add", "data.dvc", ".gitignore")
    git("commit", "-q", "-m", job)
    if job == "branch":  # `dvc checkout` has nothing to do: the folder has these files already
        git("checkout", "-q", "main")
        git("merge", "-q", "--no-ff", "-m", "merge", f"b{turn}")
    return None


def icechunk(job: str, pieces: int, turn: int) -> object:
    """An array with a chunk for each piece; a fast-forward stands for the merge."""
    import icechunk as library
    import zarr

    repo = library.Repository.open_or_create(library.local_filesystem_storage("store"))
    chunk = slice(turn * 1000, (turn + 1) * 1000)
    if job == "read":
        return zarr.open_array(repo.readonly_session("main").store, path="data", mode="r")[chunk]
    branch = f"b{turn}" if job == "branch" else "main"
    if job == "branch":
        repo.create_branch(branch, repo.lookup_branch("main"))
    session = repo.writable_session(branch)
    if job == "make":
        size = {"shape": (pieces * 1000,), "chunks": (1000,), "dtype": "u1"}
        zarr.create_array(session.store, name="data", **size)[:] = 120
    else:
        zarr.open_array(session.store, path="data")[chunk] = turn + (1 if job == "branch" else 60)
    commit = session.commit("one")
    return job == "branch" and repo.reset_branch("main", commit)


def deltalake(job: str, pieces: int, turn: int) -> object:
    """A table with a partition for each piece; it has no branches."""
    import deltalake as library
    import pyarrow as pa

    if job == "read":
        builder = library.QueryBuilder().register("t", library.DeltaTable("table"))
        return builder.execute("select * from t where piece = 0").read_all()
    if job == "make":
        rows = pa.table({"piece": range(pieces), "body": [BODY] * pieces})
        return library.write_deltalake("table", rows, partition_by=["piece"])
    rows = pa.table({"piece": [turn], "body": [b"one"]})
    return library.write_deltalake("table", rows, mode="overwrite", predicate=f"piece = {turn}")


def pyiceberg(job: str, pieces: int, turn: int) -> object:
    """A table with a partition for each piece, in a catalog on SQLite; the merge is a fast-forward."""
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    here = Path.cwd()
    catalog = SqlCatalog("bench", uri=f"sqlite:///{here}/catalog.db", warehouse=f"file://{here}")
    if job == "make":
        catalog.create_namespace("bench")
        rows = pa.table({"piece": range(pieces), "body": [BODY] * pieces})
        table = catalog.create_table("bench.t", rows.schema)
        with table.update_spec() as spec:
            spec.add_identity("piece")
        table.append(rows)
        return None
    table = catalog.load_table("bench.t")
    if job == "read":
        return table.scan(f"piece == {turn}").to_arrow()
    branch = f"b{turn}" if job == "branch" else "main"
    if job == "branch":
        head = table.metadata.current_snapshot_id or 0
        table.manage_snapshots().create_branch(head, branch).commit()
    rows = pa.table({"piece": [turn], "body": [b"one"]})
    table.overwrite(rows, f"piece == {turn}", branch=branch)
    if job == "branch":
        table.manage_snapshots().set_current_snapshot(ref_name=branch).commit()
    return None


SYSTEMS: dict[str, Callable[[str, int, int], object]] = {
    call.__name__: call for call in (graveler, dvc, icechunk, deltalake, pyiceberg)
}


def clocked(folder: str, system: str, job: str, pieces: int, turn: int) -> float:
    """Return the seconds of a job in a new process."""
    place = Path(folder, system)
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.bench.peers", system, job, str(pieces), str(turn)]
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return time.perf_counter() - start


def main(pieces: int = 10_000, turns: int = 7) -> None:
    """Measure all installed systems in turns."""
    systems = [name for name in SYSTEMS if importlib.util.find_spec(name)]
    with tempfile.TemporaryDirectory() as folder:
        for name in systems:
            made = clocked(folder, name, "make", pieces, 0)
            print(f"{name} {importlib.metadata.version(name)}: made in {made:.1f} s", flush=True)
        for job in ("commit", "branch", "read"):
            able = [name for name in systems if (name, job) != ("deltalake", "branch")]
            rounds = [
                {name: clocked(folder, name, job, pieces, turn) for name in able}
                for turn in range(turns)
            ]
            for name in able:
                seconds = median(times[name] for times in rounds)
                ratio = median(times[name] / times["graveler"] for times in rounds)
                print(f"{job:8}{name:12}{seconds:8.2f} s{ratio:8.1f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        SYSTEMS[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main(*map(int, sys.argv[1:]))
