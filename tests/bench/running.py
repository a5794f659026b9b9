"""What a pipeline waits for: the life of a run, many runs that publish at once, a DAG file."""

import multiprocessing
import subprocess
import sys
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any, Final

import graveler
from graveler.committed import Splitting
from graveler.config import write_default_config
from graveler.errors import GravelerError
from graveler.testing.world import link_unseen
from tests.bench.lakes import entries, entry, new_repository
from tests.bench.measure import Result, best, clocked, percentile, progress

LIVES: Final = 60
FILES: Final = 1_000
PROCESSES: Final = 8
RUNS: Final = 15
_PATIENCE_S: Final = 300
_DAGS: Final = Path(__file__).parents[2] / "dags"
_PLAIN: Final = """
from airflow.sdk import dag, task
@dag(schedule=None)
def plain():
    @task
    def one(): ...
    @task
    def two(): ...
    one() >> two()
plain()
"""


@graveler.gate(prefix="input/")
def adds_files(candidate: graveler.Candidate) -> None:
    """Refuse a run that adds nothing."""
    assert next(candidate.changes("input/"), None), "the run adds no file"


def running(folder: Path) -> list[Result]:
    """Measure the life of a run, publishing side by side, and what the provider costs to load."""
    return [_life(folder / "life"), *_side_by_side(folder / "side"), *_provider(folder)]


def _life(place: Path) -> Result:
    progress(f"{LIVES} runs of {FILES:,} files")
    lake, repo = new_repository(place, "bench", Splitting())
    made = list(entries("input", LIVES * FILES))
    seconds = []
    with lake:
        for number in range(LIVES):
            mine = made[number * FILES : (number + 1) * FILES]

            def life(number: int = number, mine: list[graveler.Entry] = mine) -> None:
                run = repo.runs.open(f"hour {number}")
                link_unseen(run, mine)
                run.commit("files")
                run.publish([adds_files])

            seconds.append(clocked(life))
    return Result(
        "the life of a run: open, link 1,000 files, commit, one gate, publish (SQLite)",
        f"median {median(seconds) * 1e3:.0f} ms, p99 {percentile(seconds, 0.99) * 1e3:.0f} ms",
        "median at most 100 ms",
        median(seconds) <= 0.1,
        f"{LIVES} runs, one after the other",
    )


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
    lasted = time.perf_counter() - began
    for process in processes:
        process.join()
    published = [one for seconds, _ in shares for one in seconds]
    failures = [failure for _, failed in shares for failure in failed]
    count = PROCESSES * RUNS
    return [
        Result(
            f"{PROCESSES} processes open, fill and publish runs behind a gate (SQLite)",
            f"{count / lasted:.0f} runs a second",
            "none fails",
            not failures and len(published) == count,
            f"{len(failures)} of {count} failed; a publish: median "
            f"{median(published) * 1e3:.0f} ms, p99 {percentile(published, 0.99) * 1e3:.0f} ms",
        )
    ]


def _python(code: str, folder: Path) -> float:
    environment = {"AIRFLOW_HOME": str(folder / "airflow"), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return best(
        lambda: subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL), 3
    )


def _provider(folder: Path) -> list[Result]:
    progress("loading the provider and an example")
    sdk = "import airflow.sdk\nfrom airflow.providers.standard.operators import python\n"
    bare = _python(sdk, folder)
    provider = "import graveler_airflow as g\ng.graveler_run, g.graveler_task, g.GravelerHook\n"
    loaded = _python(sdk + provider, folder) - bare
    plain = _python(sdk + _PLAIN, folder) - bare
    examples = sorted(_DAGS.glob("*airflow*.py"))
    parsed = [
        _python(f"{sdk}import runpy\nrunpy.run_path({str(path)!r})\n", folder) - bare
        for path in examples
    ]
    return [
        Result(
            "import of the provider package, its run and task loaded, beyond Airflow itself",
            f"{loaded * 1e3:.0f} ms",
            "at most 200 ms",
            loaded <= 0.2,
            f"Airflow's SDK: {bare:.1f} s",
        ),
        Result(
            "parsing of the example DAG files",
            ", ".join(f"{one * 1e3:.0f} ms" for one in parsed),
            "at most 400 ms each",
            all(one <= 0.4 for one in parsed),
            f"{', '.join(path.name for path in examples)}; a plain DAG of two tasks: "
            f"{plain * 1e3:.0f} ms",
        ),
    ]
