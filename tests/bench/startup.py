"""The start time of a process: the import, and the fastest command."""

import subprocess
import sys
from pathlib import Path
from statistics import median

from tests.bench.lakes import new_repository
from tests.bench.measure import Result, at_most, clocked, ms, progress, reported

TIMES = 15
IMPORT_LIMIT = 3.0  # 1.6 on an idle machine
LOG = "graveler log -n 1"


def python(*arguments: str) -> None:
    """Run the interpreter in a separate process."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def startup(folder: Path) -> list[Result]:
    """Compare a bare interpreter, the import and the command, each in a separate process."""
    progress("starts of processes")
    lake, repo = new_repository(folder / "startup", "bench")
    with lake:
        repo.branch("main").put("a", b"1")
        repo.branch("main").commit("a file")
    commands = {
        "bare": ("-c", "pass"),
        "import": ("-c", "import graveler"),
        LOG: ("-m", "graveler", "-C", str(folder / "startup"), "log", "-n", "1"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(TIMES):
        for name, arguments in commands.items():
            seconds[name].append(clocked(lambda: python(*arguments)))  # noqa: B023 - called now
    bare, imported, logged = (median(times) for times in seconds.values())
    return [
        at_most(
            "`import graveler` in a new process",
            imported / bare,
            IMPORT_LIMIT,
            "a bare interpreter's start",
            f"{ms(imported)} and {ms(bare)}, medians of {TIMES}",
        ),
        reported(
            f"`{LOG}` in a new process",
            ms(logged),
            f"a bare interpreter: {ms(bare)}, `import graveler`: {ms(imported)}",
        ),
    ]
