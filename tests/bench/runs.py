"""The waiting times of a pipeline: a whole run, concurrent publishes, and the load of a DAG file."""

import json
import multiprocessing
import subprocess
import sys
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any

import graveler
from graveler.errors import GravelerError
from graveler.lake import Repository
from graveler.lake.factory import write_default_config
from graveler.testing.world import link_unseen
from tests.bench.lakes import entries, entry, new_repository
from tests.bench.measure import Result, at_most, clocked, ms, percentile, progress, reported

LIVES = 60
FILES = 1_000
PROCESSES = 8
RUNS = 15
_PATIENCE_S = 300
_TURNS = 5
# of the seconds that Airflow's SDK takes to load: 0.07 for the provider, 0.09 for an example
PROVIDER_LIMIT = 0.15
EXAMPLE_LIMIT = 0.25
_DAGS = Path(__file__).parents[2] / "dags"
_PLAIN_DAG = Path(__file__).with_name("programs") / "plain_dag.py"


@graveler.gate(prefix="input/")
def adds_files(candidate: graveler.Candidate) -> None:
    """Refuse a run that adds nothing."""
    assert next(candidate.changes("input/"), None), "the run adds no file"


def runs(folder: Path) -> list[Result]:
    """Measure a whole run, concurrent publishes, and the load time of the provider."""
    return [_life(folder / "life"), *_side_by_side(folder / "side"), *_provider(folder)]


def _life(place: Path) -> Result:
    progress(f"{LIVES} runs of {FILES:,} files")
    lake, repo = new_repository(place, "bench")
    files = list(entries("input", LIVES * FILES))
    seconds = []
    with lake:
        for number in range(LIVES):
            hour = files[number * FILES : (number + 1) * FILES]
            seconds.append(clocked(lambda: _live(repo, f"hour {number}", hour)))  # noqa: B023 - called now
    return reported(
        "the life of a run: open, link 1,000 files, commit, one gate, publish (SQLite)",
        f"median {ms(median(seconds))}, p99 {ms(percentile(seconds, 0.99))}",
        f"{LIVES} runs, one after the other",
    )


def _live(repo: Repository, key: str, files: list[graveler.Entry]) -> None:
    run = repo.runs.open(key)
    link_unseen(run, files)
    run.commit("files")
    run.publish([adds_files])


def _publisher(location: str, number: int, start: Barrier, answers: Any) -> None:
    seconds: list[float] = []
    failures: list[str] = []
    with graveler.open(location) as lake:
        repository = lake.repository("bench")
        start.wait(_PATIENCE_S)
        for turn in range(RUNS):
            try:
                run = repository.runs.open(f"hour {number} {turn}")
                link_unseen(
                    run,
                    (entry(f"input/{number:02}/{turn:02}/part-{part}") for part in range(10)),
                )
                run.commit("files")
                began = time.perf_counter()
                run.publish([adds_files])
                seconds.append(time.perf_counter() - began)
            except GravelerError as error:
                failures.append(repr(error))
    answers.put((seconds, failures))


def _side_by_side(place: Path) -> list[Result]:
    progress(f"{PROCESSES} processes publish {RUNS} runs each")
    write_default_config(place)
    with graveler.open(str(place), create=True) as lake:
        lake.create_repository("bench")
    context = multiprocessing.get_context("forkserver")
    start, answers = context.Barrier(PROCESSES + 1), context.Queue()
    processes = [
        context.Process(target=_publisher, args=(str(place), number, start, answers))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    start.wait(_PATIENCE_S)
    began = time.perf_counter()
    shares = [answers.get(timeout=_PATIENCE_S) for _ in processes]
    total = time.perf_counter() - began
    for process in processes:
        process.join()
    publishes = [publish for seconds, _ in shares for publish in seconds]
    failures = [failure for _, failed in shares for failure in failed]
    count = PROCESSES * RUNS
    name = f"{PROCESSES} processes open, fill and publish runs behind a gate (SQLite)"
    return [
        Result(
            name,
            f"{len(failures)} of {count} fail, {len(publishes)} are published",
            "none fails, all are published",
            not failures and len(publishes) == count,
        ),
        reported(
            name,
            f"{count / total:.0f} runs/s",
            f"a publish: median {ms(median(publishes))}, p99 {ms(percentile(publishes, 0.99))}",
        ),
    ]


def _provider(folder: Path) -> list[Result]:
    progress("loading the provider and the examples")
    examples = sorted(_DAGS.glob("*airflow*.py"))
    plain = _loads(_PLAIN_DAG, folder)[1]
    sdk, provider = _loads(None, folder)
    results = [
        at_most(
            "import of the provider package, its run and task loaded",
            provider / sdk,
            PROVIDER_LIMIT,
            "loading Airflow's SDK",
            f"{ms(provider)} and {ms(sdk)}, medians of {_TURNS} processes",
        )
    ]
    for path in examples:
        sdk, parsed = _loads(path, folder)
        results.append(
            at_most(
                f"parsing of {path.name}",
                parsed / sdk,
                EXAMPLE_LIMIT,
                "loading Airflow's SDK",
                f"{ms(parsed)} and {ms(sdk)}; a plain DAG of two tasks: {ms(plain)}",
            )
        )
    return results


def _loads(path: Path | None, folder: Path) -> tuple[float, float]:
    """Return the median seconds of loading Airflow's SDK, and then a DAG file or the provider."""
    arguments = [] if path is None else [str(path)]
    pairs = [
        json.loads(
            subprocess.run(
                [
                    sys.executable,
                    "-W",
                    "ignore",
                    "-m",
                    "tests.bench.programs.airflow_load",
                    *arguments,
                ],
                check=True,
                env={"AIRFLOW_HOME": str(folder / "airflow"), "PYTHONPATH": ":".join(sys.path)},
                capture_output=True,
            ).stdout.splitlines()[-1]
        )
        for _ in range(_TURNS)
    ]
    sdk, loaded = (median(seconds) for seconds in zip(*pairs, strict=True))
    return sdk, loaded
