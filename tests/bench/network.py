"""The life of a run on stores over a network: objects 30 ms away, records 1 ms."""

import time
from collections import Counter
from pathlib import Path

import graveler
from graveler.lake import Repository
from graveler.model import Entry
from graveler.testing.process import Call, Process
from tests.bench.lakes import new_repository, watched_lake
from tests.bench.measure import Result, clocked, progress

FILES = 1_000
OBJECTS_S = 0.030
RECORDS_S = 0.001
_RUNS = 5
_ALLOWED = {"objects": 6, "kv": 70}


@graveler.gate(prefix="input/")
def adds_files(candidate: graveler.Candidate) -> None:
    """Refuse a run that adds nothing."""
    assert next(candidate.changes("input/"), None), "the run adds no file"


def network(folder: Path) -> list[Result]:
    """Measure a run of 1,000 links and count its calls to the stores."""
    progress(f"runs of {FILES:,} links, {OBJECTS_S * 1e3:.0f} ms a request")
    lake, repo = new_repository(folder / "network", "bench")
    with lake:
        hours = [_written(repo, hour) for hour in range(_RUNS)]
    process = Process(_waits)
    with watched_lake(folder / "network", process) as lake:
        lives = [_life(lake.repository("bench"), entries, process) for entries in hours]
    seconds, asked = min(lives[1:], key=lambda life: life[0])  # the first one opens the lake
    return [
        Result(
            "a run over a network: open, 1,000 links, commit, one gate, publish",
            f"{seconds * 1e3:.0f} ms, {asked['objects']} requests, {asked['kv']} statements",
            f"at most {_ALLOWED['objects']} requests and {_ALLOWED['kv']} statements",
            all(asked[store] <= most for store, most in _ALLOWED.items()),
            f"{OBJECTS_S * 1e3:.0f} ms a request, {RECORDS_S * 1e3:.0f} ms a statement: "
            f"{_spent(asked) * 1e3:.0f} ms of waiting, if all calls were in sequence; one request "
            "lists the folder of the links",
        )
    ]


def _waits(call: Call) -> None:
    time.sleep(OBJECTS_S if call.store == "objects" else RECORDS_S)


def _spent(asked: Counter[str]) -> float:
    return asked["objects"] * OBJECTS_S + asked["kv"] * RECORDS_S


def _written(repo: Repository, hour: int) -> list[Entry]:
    """Write the files of an hour into the repository's storage, as Spark does; return them."""
    folder = f"data/spark-{hour:02}"
    names = [f"part-{number:05d}.parquet" for number in range(FILES)]
    for name in names:
        repo.stores.objects.put(f"{folder}/{name}", b"some rows")
    return [Entry(f"input/{hour:02}/{name}", f"{folder}/{name}", 9) for name in names]


def _life(repo: Repository, entries: list[Entry], process: Process) -> tuple[float, Counter[str]]:
    process.calls.clear()

    def life() -> None:
        run = repo.runs.open(f"hour {entries[0].path}")
        run.link_many(entries)
        run.commit("files")
        run.publish([adds_files])

    seconds = clocked(life)
    return seconds, Counter(call.store for call in process.calls)
