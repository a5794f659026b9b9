"""The commands: ``make simulate`` runs the first one, and ``replay`` repeats a failure.

::

    python -m tests.simulate                            # everything, about 90 minutes
    python -m tests.simulate within SECONDS             # mutants, and a part of the rest
    python -m tests.simulate SCENARIO …                 # only these, to the end; SCENARIO+2
    python -m tests.simulate random FIRST COUNT
    python -m tests.simulate lakes FIRST COUNT
    python -m tests.simulate mutants WORD …
    python -m tests.simulate replay SCENARIO 'SCHEDULE'
    python -m tests.simulate replay random SEED
"""

import sys

from tests.simulate.judging import judge
from tests.simulate.scenarios.catalogue import find
from tests.simulate.scenarios.conditions import simulating
from tests.simulate.scenarios.shared import Call
from tests.simulate.schedules.random_runs import drive, scenario_of
from tests.simulate.schedules.report import Report
from tests.simulate.schedules.run import KINDS, SIGNS, Run, schedule_of
from tests.simulate.witnesses import WITNESSES


class _Told:
    """Prints each step of a run before it is taken."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._take = run.take
        run.take = self.take  # type: ignore[method-assign,assignment]

    def take(self, choice: int) -> object:
        process = self._run.processes[choice // KINDS]
        print(
            f"{len(self._run.trace):5} {process.name}{SIGNS[choice % KINDS]} {_text(process.pending)}"
        )
        return self._take(choice)


def _text(call: Call | None) -> str:
    if call is None:
        return ""
    partition, key = call.partition, call.key.decode("utf-8", "replace")
    kind, _, token = partition.partition(":")
    return f"{call.name} {kind} {token.rpartition(':')[2].lstrip('0')} {key}"


def replay(name: str, text: str) -> int:
    """Repeat one schedule or seed; print each step, the operations and the verdict."""
    if name == "random":
        scenario = scenario_of(int(text))
    else:
        scenario = WITNESSES[name].scenario if name in WITNESSES else find(name)
    run = scenario.start()
    _Told(run)
    wrong = ""
    if name == "random":
        wrong = drive(run, int(text))
    for choice in () if name == "random" else schedule_of(text, scenario.names):
        run.take(choice)
    while choices := run.choices():
        run.take(choices[0])
    wrong = wrong or judge(scenario, run)
    for operation in run.world.history.operations:
        print(operation)
    print(wrong or "nothing is wrong")
    return bool(wrong)


def main(arguments: list[str]) -> int:
    """Run the command line; return the number of failures."""
    what = arguments[0] if arguments else ""
    if what == "replay":
        with simulating():
            return replay(*arguments[1:])
    report = Report()
    if what == "random":
        report.seeds(*map(int, arguments[1:]))
    elif what == "within":
        report.within(float(arguments[1]))
    elif what == "lakes":
        report.lakes(*map(int, arguments[1:]))
    elif what == "mutants":
        report.mutants(arguments[1:])
    elif arguments:
        report.scenarios(arguments)
    else:
        report.scenarios()
        report.seeds()
        report.lakes()
        report.mutants()
    return report.end()


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
