"""A first lake, run and gate, with nothing but the package installed."""

import graveler


@graveler.gate(reads="run")
def has_rows(candidate):
    """Refuse an hour whose file has no rows."""
    for entry in candidate.added("input/"):
        assert candidate.get(entry).count(b"\n") > 1, f"{entry.path} has no rows"


repo = graveler.init("lake").create_repository("flights")
for hour, rows in ((5, b"carrier\nUA\n"), (6, b"carrier\n")):
    try:
        with repo.run(f"hour {hour}", into="main", gates=[has_rows]) as run:
            run.put(f"input/2013/01/01/{hour:02}:00/flights.csv", rows)
        print("published", hour)
    except graveler.GateFailedError as error:
        print("refused", hour, error)
print("main has", [entry.path for entry in repo.ref("main").entries()])
