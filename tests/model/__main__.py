"""The commands; ``make simulate`` runs the first one.

::

    python -m tests.model                             # everything, about an hour
    python -m tests.model within SECONDS              # as many histories as fit
    python -m tests.model FIRST COUNT [--every-gc] [--processes]
    python -m tests.model mutants [WORD …]
"""

import sys

from tests.model.mutants import hunt
from tests.model.report import Report


def main(arguments: list[str]) -> int:
    """Run the command line; return the number of failures."""
    flags = {
        word.removeprefix("--").replace("-", "_"): True for word in arguments if word[:2] == "--"
    }
    words = [word for word in arguments if word[:2] != "--"]
    report = Report()
    if words[:1] == ["mutants"]:
        return hunt(words[1:])
    if words[:1] == ["within"]:
        report.histories(0, 5_000, within=float(words[1]))
        return report.wrong
    if words:
        first, count = map(int, words)
        report.histories(first, count, **flags)
        return report.wrong
    report.histories(0, 5_000)
    report.histories(5_000, 100, every_gc=True)
    report.histories(6_000, 200, processes=True)
    return report.wrong + hunt([])


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
