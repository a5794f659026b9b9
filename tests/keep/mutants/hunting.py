"""Hunts: each mutant in a process of its own, in which pytest runs the tests that must find it."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import Phase, settings

from tests.harness.programs import ROOT, command
from tests.keep.mutants.table import MUTANTS
from tests.simulate.mutants.patch import mutated

_PATIENCE_S = 120
_say = partial(print, flush=True)
_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class _Examples:
    """The examples of CI. Those that fail are not shrunk."""

    def pytest_configure(self) -> None:
        given = settings.get_profile("ci")
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("hunt", given, phases=phases)
        settings.load_profile("hunt")


def found_by(name: str) -> str:
    """Return the test that finds a mutant; "" if it survives."""
    hunter = command("keep.mutants.hunting", name, warnings="default")
    try:
        done = subprocess.run(
            hunter, cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {_PATIENCE_S} s"
    if done.returncode == pytest.ExitCode.OK:
        return ""
    failed = _FAILED.search(done.stdout)
    if done.returncode != pytest.ExitCode.TESTS_FAILED or failed is None:
        raise RuntimeError(f"{name}: {(done.stdout + done.stderr)[-2000:]}")
    return failed[1].removeprefix("tests/")


def hunt(words: Sequence[str] = ()) -> int:
    """Hunt the mutants whose names have one of the words, or all; return how many survive."""
    chosen = [name for name in MUTANTS if not words or any(word in name for word in words)]
    survivors = 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for name, found in zip(chosen, threads.map(found_by, chosen), strict=True):
            survivors += not found
            _say(f"  {name:60} {found or 'SURVIVED'}")
    _say(f"{len(chosen) - survivors} of {len(chosen)} mutants found")
    return survivors


def main(name: str) -> int:
    """Run the tests of a mutant, and return the exit code of pytest."""
    tests = [f"tests/{each}" for each in MUTANTS[name].scenarios]
    with mutated(MUTANTS[name]):
        return pytest.main([*_OPTIONS, *tests], plugins=[_Examples()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
