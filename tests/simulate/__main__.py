"""``python -m tests.simulate [replay SCENARIO SCHEDULE]``: explore, or repeat what failed."""

import sys

from tests.simulate.conditions import simulating
from tests.simulate.explore import explore
from tests.simulate.judging import judge
from tests.simulate.run import schedule_of
from tests.simulate.scenarios import every_scenario, find


def replay(name: str, text: str) -> int:
    """Repeat one schedule, and tell each step and what became of it."""
    scenario = find(name)
    run = scenario.start()
    for choice in schedule_of(text, scenario.names):
        process = run.processes[choice // 6]
        print(process.name, process.pending)
        run.take(choice)
    while choices := run.choices():
        process = run.processes[choices[0] // 6]
        print(process.name, process.pending)
        run.take(choices[0])
    wrong = judge(scenario, run)
    for operation in run.world.history.operations:
        print(operation)
    print(wrong or "nothing is wrong")
    return 1 if wrong else 0


def main() -> int:
    with simulating():
        if sys.argv[1:2] == ["replay"]:
            return replay(*sys.argv[2:4])
        for scenario in every_scenario():
            if sys.argv[1:] and scenario.name.split("+")[0] not in sys.argv[1:]:
                continue
            found = explore(scenario, judge, seconds=20)
            print(
                f"{scenario.name:26} {found.schedules:7} {found.finished:6} {found.states:7} {found.longest:3} "
                f"{'complete' if found.complete else 'bound'} {found.seconds:.1f}s {found.violation} {found.schedule}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
