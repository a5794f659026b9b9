"""Gates tried over history: a pipeline with a day and a night, and ten bad hours among 168."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graveler
from graveler import checks
from graveler.base.names import hour_folder, hour_text
from graveler.errors import InvalidInputError

FIRST = datetime(2013, 1, 1, tzinfo=UTC)
DAYS, WEEK = 4, 168
CARRIERS = ["UA", "DL", "AA"]


def damages(chance):
    """Return the ten bad hours of the week, each with the function that damages its rows."""
    kinds = [
        lambda rows: rows[: len(rows) // 4],  # three quarters are missing
        lambda rows: rows + rows,  # everything twice
        lambda rows: [(carrier, -500) for carrier, _ in rows],  # impossible delays
        lambda rows: [("??", delay) for _, delay in rows],  # unknown carriers
        lambda rows: [(None, delay) for _, delay in rows],
    ]
    hours = chance.sample(range(WEEK), 10)
    return dict(zip(hours, kinds * 2, strict=True))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    chance = random.Random(7)
    bad = damages(chance)
    with graveler.init(tmp_path_factory.mktemp("trials") / "lake") as lake:
        repo = lake.create_repository("flights")
        for number in range(-24 * DAYS, WEEK):
            hour = FIRST + timedelta(hours=number)
            usual = 400 if 6 <= hour.hour < 22 else 30  # a day and a night
            count = round(usual * chance.uniform(0.93, 1.07))
            rows = [(chance.choice(CARRIERS), chance.randrange(-20, 180)) for _ in range(count)]
            rows = bad.get(number, lambda rows: rows)(rows)
            file = pa.BufferOutputStream()
            columns = dict(
                zip(("carrier", "delay"), map(list, zip(*rows, strict=True)), strict=True)
            )
            pq.write_table(pa.table(columns), file)
            with repo.run(f"hour {number}", metadata={"hour": hour_text(hour)}) as run:
                run.put(f"output/{hour_folder(hour)}/part.parquet", file.getvalue().to_pybytes())
        yield repo, {hour_text(FIRST + timedelta(hours=number)) for number in bad}


GATES = [
    checks.same_hour("output/"),
    checks.accepted_values("output/", "carrier", CARRIERS, nulls=False),
    checks.sql("select delay from 'new:output/' where delay < -120"),
]


def test_the_ten_bad_hours_of_a_week_are_named(pipeline):
    repo, bad = pipeline
    head, judgements = repo.commit("main"), list(repo.gates.judgements())
    tried = repo.gates.trials(GATES, f"main~{WEEK}..main")
    assert len(tried) == WEEK
    assert {trial.name for trial in tried if trial.refused} == bad
    assert not any(verdict.died for trial in tried for verdict in trial.verdicts)
    assert repo.commit("main") == head
    assert list(repo.gates.judgements()) == judgements


def test_the_command_line_lists_the_hours(pipeline, cli):
    repo, bad = pipeline
    place = ["-C", repo.stores.location, "gates", "try"]
    said = cli(*place, "tests.gates.test_trials:CARRIER", "--over", f"main~{WEEK}..main")
    hours = {line.split()[-1] for line in said.out.splitlines() if "  refused  " in line}
    assert hours < bad
    assert said.out.splitlines()[-1] == f"{len(hours)} of 168 commits would have been refused"
    shapes = cli("--json", *place, "tests.gates.test_trials:CARRIER", "--over", "main~9..main")
    assert len(shapes.lines) == 9
    assert cli(*place, "tests.gates.test_trials:CARRIER", "--over", "main").code == 1


CARRIER = GATES[1]


def test_a_range_that_is_none_is_refused(pipeline):
    with pytest.raises(InvalidInputError, match=r"LEFT\.\.RIGHT"):
        pipeline[0].gates.trials(GATES, "main")


def test_a_sum_is_compared_with_the_same_hour(pipeline):
    repo, _ = pipeline
    gate = checks.same_hour("output/", "delay", share=0.3)
    hour = FIRST + timedelta(days=7, hours=2)
    columns = {"carrier": ["UA"] * 30, "delay": [5_000] * 30}
    file = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), file)
    run = repo.runs.open("odd", metadata={"hour": hour_text(hour)})
    run.put(f"output/{hour_folder(hour)}/part.parquet", file.getvalue().to_pybytes())
    run.commit_staged()
    (verdict,) = run.judge([gate])
    assert "the sum of 'delay' is 150000 at 2013-01-08 02:00, where 7 days before" in verdict.reason
    (verdict,) = run.judge([checks.same_hour("output/", "carrier")])
    assert "name a column of numbers" in verdict.reason


@pytest.mark.parametrize("large", [1 << 62, Decimal(10**37)])
def test_a_sum_of_large_numbers_does_not_wrap_around(repo, large):
    hour, main = FIRST + timedelta(days=3), repo.branch("main")
    for day, rows in ((0, 2), (1, 2), (2, 2), (3, 20)):
        folder = hour_folder(FIRST + timedelta(days=day))
        main.write(pa.table({"n": [large] * rows}), f"output/{folder}/part.parquet")
    main.commit("four days")
    run = repo.runs.open("again", metadata={"hour": hour_text(hour)})
    (verdict,) = run.judge([checks.same_hour("output/", "n")])
    assert verdict.facts["usual"] == pytest.approx(2 * float(large))
    assert verdict.facts["found"] == pytest.approx(20 * float(large))
    assert not verdict.passed


def test_a_young_branch_is_tried_as_a_whole(repo):
    (trial,) = repo.gates.trials([checks.file_size("", 100)])
    assert trial.refused
