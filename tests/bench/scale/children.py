"""Work in separate processes: one after the other, or several at once."""

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty
from threading import Event
from typing import Any

_SPAWN = multiprocessing.get_context("spawn")
_PATIENCE_S = 3_600
_MIB = 1 << 20

Ready = Callable[[], None]
"""Waits until all processes are ready; the measured time begins then."""


class ChildError(Exception):
    """An error of a child process, with its traceback."""


def in_child(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of a module returns in a new process."""
    return _together(_plain, 1, work, *arguments)[0]


def _plain(_ready: Ready, work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


def rate(work: Callable[..., int], *arguments: Any, count: int = 2) -> float:
    """Return the units per second that several processes do together, by the wall clock.

    Args:
        work: Called with `Ready`, the number of the process and the arguments; returns its units.
        arguments: Arguments of each process.
        count: Number of processes.
    """
    shares = _together(_timed, count, work, *arguments)
    began = min(share[1] for share in shares)
    ended = max(share[2] for share in shares)
    return float(sum(share[0] for share in shares) / (ended - began))


def _timed(
    ready: Ready, number: int, work: Callable[..., int], *arguments: Any
) -> tuple[int, float, float]:
    began = 0.0

    def start() -> None:
        nonlocal began
        ready()
        began = time.monotonic()  # the same clock in all processes

    units = work(start, number, *arguments)
    return units, began, time.monotonic()


def _together(run: Callable[..., Any], count: int, *arguments: Any) -> list[Any]:
    barrier, answers = _SPAWN.Barrier(count), _SPAWN.Queue()
    several = (number for number in range(count)) if run is _timed else None
    processes = [
        _SPAWN.Process(
            target=_answer,
            args=(
                answers,
                barrier,
                run,
                *(() if several is None else (next(several),)),
                *arguments,
            ),
        )
        for _ in range(count)
    ]
    for process in processes:
        process.start()
    try:
        found = [_next_answer(answers, processes) for _ in processes]
    except ChildError:
        for process in processes:
            process.terminate()  # a process that waits for a dead one would wait for an hour
        raise
    finally:
        for process in processes:
            process.join()
    for failed, answer in found:
        if failed:
            raise ChildError(answer)
    return [answer for _, answer in found]


def _next_answer(answers: Any, processes: Sequence[BaseProcess]) -> Any:
    """Return the next answer, or raise ChildError if a process has died without one."""
    while True:
        dead = [process.exitcode for process in processes if process.exitcode]
        try:
            return answers.get(timeout=1)
        except Empty:
            if dead:
                raise ChildError(f"a process ended without an answer, with {dead}") from None


def _answer(answers: Any, barrier: Any, run: Callable[..., Any], *arguments: Any) -> None:
    def ready() -> None:
        barrier.wait(_PATIENCE_S)

    try:
        answers.put((False, run(ready, *arguments)))
    except BaseException as error:  # noqa: BLE001 - the parent raises it
        barrier.abort()
        last = traceback.format_exception_only(error)[-1].strip()
        known = isinstance(error, ChildError)
        answers.put((True, str(error) if known else f"{last}\n{traceback.format_exc()}"))


@dataclass(frozen=True, slots=True)
class Memory:
    """The peak memory of a process, in MiB.

    Attributes:
        resident: Resident pages, mapped files included.
        own: Pages that belong to no file and cannot be evicted.
    """

    resident: float
    own: float


def with_memory(work: Callable[[], Any]) -> tuple[Any, Memory]:
    """Return the result of `work`, and the peak memory of this process until then."""
    over, most = Event(), _own()

    def watch() -> float:
        highest = most
        while not over.wait(0.1):
            highest = max(highest, _own())
        return highest

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            result = work()
        finally:
            over.set()
        return result, Memory(_status("VmHWM"), max(watching.result(), _own()))


def _own() -> float:
    return _status("RssAnon")


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024 / _MIB


def on_one_core() -> None:
    """Bind this process and its threads to one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
