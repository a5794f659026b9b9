"""The built-in checks on runs: their metadata, main's contents, and earlier verdicts."""

from datetime import timedelta
from typing import Any

import pandas
import pyarrow as pa
import pytest

import graveler
from graveler import checks
from graveler.errors import GateFailedError
from tests.gates.files import FAILED, MODEL, TEST, dbt, judged, parquet, rows, said

RESULTS = "dbt/run_results.json"


def test_results_that_dbt_wrote_in_another_run_are_stale(repo):
    gate = checks.dbt_results("dbt/")

    def written_in(run):
        return {RESULTS: dbt(MODEL, TEST, metadata={"env": {"GRAVELER_RUN": run}}).data}

    assert said(repo, gate, written_in("hour 05")) == ""
    refused = said(repo, gate, written_in("hour 04"))
    assert "is stale: dbt wrote it in run 'hour 04', and has written none in this run" in refused
    branch = repo.create_branch("by-hand", "main", exist_ok=True)
    branch.put(RESULTS, written_in("hour 04")[RESULTS])
    branch.commit("no run")
    repo.gates.require("main", gate)
    repo.merge("by-hand", into="main")


@pytest.mark.parametrize(
    ("prefix", "hour", "path"),
    [
        ("t/{hour}/", "2013-01-01T05:00Z", "t/2013/01/01/05:00/a"),
        ("t/{hour}/", "2013-01-01T06:00+01:00", "t/2013/01/01/05:00/a"),
        ("t/{hour}/", "2013/01/01/05:00/", "t/2013/01/01/05:00/a"),
        ("t/{hour}/", "2013-01-01T05:00Z", "t/2013-01-01T05:00Z/a"),
        ("t/{hour:%Y/%m/%d}/", "2013-01-01T00:00Z", "t/2013/01/01/23:00/a"),
        ("t/{hour:%Y/%m/%d}/", "2013/01/01/00:00", "t/2013/01/01/23:00/a"),
        ("t/{dagster.partition}/", "2013-01-01T05:00Z", "t/eu/a"),
        ("t/{key}/", "2013-01-01T05:00Z", "t/hour 05/a"),
        ("t/{{x}}/{hour}/", "05", "t/{x}/05/a"),
    ],
)
def test_a_time_of_the_run_is_also_its_folder(repo, prefix, hour, path):
    gate = checks.only_within(prefix)
    metadata = {"hour": hour, "dagster.partition": "eu"}
    assert said(repo, gate, {path: b"1"}, metadata=metadata) == ""
    other = path.replace("t/", "t/2013/02/", 1)
    assert "would be added" in said(repo, gate, {other: b"1"}, metadata=metadata)


@pytest.mark.parametrize("hour", ["2013-01-01", "20130101", "0001-01-01T00:00+14:00", "5:0"])
def test_what_is_no_hour_stands_for_itself_alone(repo, hour):
    gate = checks.only_within("t/{hour}/")
    assert said(repo, gate, {f"t/{hour}/a": b"1"}, metadata={"hour": hour}) == ""
    folder = {"t/2013/01/01/00:00/a": b"1"}
    assert "would be added" in said(repo, gate, folder, metadata={"hour": hour})


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        ("{region}", "what they name is empty"),
        ("t/{region:%Y}", "cannot be filled in"),
        ("t/{hour.year}/", "the run has no 'hour.year'"),
    ],
)
def test_a_prefix_that_matches_nothing_of_the_run_passes_nothing(repo, prefix, reason):
    metadata = {"hour": "2013-01-01T05:00Z", "region": ""}
    assert reason in said(repo, checks.only_within(prefix), {"t/a": b"1"}, metadata=metadata)


def test_a_commit_names_a_gate_of_several_prefixes_as_one(repo):
    gate = checks.only_within("t/", "u/")
    assert said(repo, gate, {"t/a": b"1"}) == ""
    assert repo.why("t/a").gates == (gate.name,)


def test_nothing_is_deleted_but_where_it_may_be(repo):
    gate = checks.nothing_deleted_outside("t/")
    main = {"t/a": b"1", "u/a": b"1"}
    assert said(repo, gate, {"u/b": b"1", "u/a": b"2"}, on_main=main, delete=["t/a"]) == ""
    assert "'u/a' would be deleted" in said(repo, gate, {}, delete=["u/a"])


def test_the_schema_is_that_of_the_newest_file_on_main(repo):
    gate = checks.schema("t/")
    assert said(repo, gate, {"t/a.parquet": rows(1)}) == ""
    with repo.run("later") as run:
        run.put("t/b.parquet", rows(1, x=["a"]))
    assert "'t/c.parquet' lacks x" in said(repo, gate, {"t/c.parquet": rows(1)})


@pytest.mark.parametrize("scope", ["changes", "all"])
def test_old_files_are_judged_again_only_where_that_is_asked(repo, scope):
    bad = {"t/a.parquet": rows(1, x=pa.array([None], pa.string()))}
    gate = checks.not_null("t/", "x", scope=scope)
    there = said(repo, gate, {"t/b.parquet": rows(1, x=["a"])}, on_main=bad)
    assert there == ("" if scope == "changes" else "column 'x' has 1 nulls in 2 rows")


def test_each_run_may_be_unique_and_both_together_not(repo):
    gate = checks.unique("t/", "id")
    assert said(repo, gate, {"t/a.parquet": rows(2)}) == ""
    assert "more than once" in said(repo, gate, {"t/b.parquet": rows(1)})
    assert said(repo, checks.unique("t/", "id", scope="changes"), {"t/c.parquet": rows(1)}) == ""


def test_a_reference_must_be_found(repo):
    carriers = {"c/a.parquet": parquet({"code": ["AA", "UA", None]})}
    gate = checks.refers_to("t/", "carrier", "c/", "code")
    good = {"t/a.parquet": parquet({"carrier": ["AA", None, "AA"]})}
    assert said(repo, gate, good, on_main=carriers) == ""
    bad = {"t/b.parquet": parquet({"carrier": ["ZZ", "UA", "YY"]})}
    lost = "2 values of 'carrier' below 't/' are not in 'code' below 'c/': 'YY', 'ZZ'"
    assert said(repo, gate, bad) == lost
    assert "are not in" in said(repo, checks.refers_to("t/", "carrier", "n/"), bad)
    assert said(repo, gate, {"u/a": b"1"}) == ""


@pytest.mark.parametrize("left", [["UA"], None])
def test_a_reference_is_judged_when_only_the_other_side_changes(repo, left):
    gate = checks.refers_to("t/", "carrier", "c/", "code")
    with repo.run("before", gates=[gate]) as run:
        run.put("c/a.parquet", parquet({"code": ["AA", "UA"]}))
        run.put("c/b.parquet", parquet({"code": ["UA"]}))
        run.put("t/a.parquet", parquet({"carrier": ["AA"]}))
    files = {} if left is None else {"c/a.parquet": parquet({"code": left})}
    assert "not in 'code' below 'c/': 'AA'" in said(
        repo, gate, files, delete=["c/a.parquet"] if left is None else []
    )
    assert said(repo, gate, {"c/c.parquet": parquet({"code": ["DL"]})}) == ""


@graveler.gate(prefix="t/")
def no_fast_flights(candidate):
    frame = candidate.read("t/", pandas.DataFrame)
    assert (frame.delay > 0).all(), f"{len(frame)} rows from {set(frame.carrier)}"


def test_a_gate_reads_a_frame_as_a_step_does(repo):
    path = "t/carrier=UA/a.parquet"
    assert said(repo, no_fast_flights, {path: parquet({"delay": [1, 2]})}) == ""
    slow = {path: parquet({"delay": [1, 2, -3]})}
    assert "3 rows from {'UA'}" in said(repo, no_fast_flights, slow)


def test_a_stale_folder_is_not_fresh_though_it_was_judged_before(repo):
    gate = checks.freshness("t/", timedelta(hours=1))
    assert said(repo, gate, {"t/a": b"1"}) == ""
    repo.stores.clock.sleep(7_200)
    assert "ago: more than 1:00:00" in said(repo, gate, {})


def publish(repo, key, number, gate=None, **options):
    """Publish a run with this number of rows; return the verdict of its gate, if it has one."""
    try:
        with repo.run(key, gates=[gate] if gate else [], **options) as run:
            run.put(f"t/{key}/a.parquet", rows(number))
    except GateFailedError as error:
        return error.verdicts[0]
    return next(iter(repo.runs.get(key).verdicts), None)


@pytest.mark.parametrize(
    ("numbers", "options", "expected"),
    [
        ([10, 10, 10, 9], {}, ""),
        ([10, 12, 8, 4], {}, "4 rows below 't/', where 3 earlier commits brought 10 (median)"),
        ([10, 10, 10, 5], {}, ""),
        ([10, 10, 10, 40], {}, ""),
        ([10, 10, 10, 40], {"more": 2.0}, "more than 200% more"),
        ([10, 10, 10, 30], {"more": 2.0}, ""),
        ([10, 10, 1], {}, ""),  # too little history
        ([1000, 10, 10, 10, 9], {}, ""),  # one odd day is not the usual number
        ([100, 1, 1, 1, 1], {"history": 3.0}, ""),
    ],
)
def test_rows_are_compared_with_what_is_usual(repo, numbers, options, expected):
    for hour, number in enumerate(numbers[:-1]):
        publish(repo, f"hour {hour}", number)
    with repo.run("other") as run:  # no history of this prefix
        run.put("u/1", b"1")
    verdict = publish(repo, "last", numbers[-1], checks.row_count_change("t/", **options))
    assert expected in verdict.reason
    assert verdict.passed is not bool(expected)
    assert verdict.facts["rows"] == numbers[-1]
    assert verdict.facts["compared"] == min(len(numbers) - 1, options.get("history", 20))


def test_an_hour_is_compared_with_its_time_of_day(repo):
    gate = checks.row_count_change("t/")

    def verdict(day, hour, number):
        metadata = {"hour": f"2013-01-{day:02}T{hour:02}:00Z"}
        return publish(repo, f"{day} {hour}", number, gate, metadata=metadata)

    for day in range(1, 4):
        assert verdict(day, 2, 4).passed
        assert verdict(day, 12, 100).passed
    assert verdict(4, 2, 3).passed
    assert "3 earlier commits of 12:00 brought 100" in verdict(4, 12, 30).reason


MAKE = {
    "schema": lambda **options: checks.schema("t/", {"id": ""}, **options),
    "row_count": lambda **options: checks.row_count("t/", **options),
    "row_count_change": lambda **options: checks.row_count_change("t/", **options),
    "not_null": lambda **options: checks.not_null("t/", "id", **options),
    "unique": lambda **options: checks.unique("t/", "id", **options),
    "in_range": lambda **options: checks.in_range("t/", "id", 0, **options),
    "freshness": lambda **options: checks.freshness("t/", **options),
    "file_format": lambda **options: checks.file_format("t/", **options),
    "file_size": lambda **options: checks.file_size("t/", **options),
    "refers_to": lambda **options: checks.refers_to("t/", "id", "settled", **options),
}


@pytest.mark.parametrize("kind", MAKE)
def test_an_empty_prefix_is_refused_unless_allowed(repo, kind):
    for scope in ("changes", "all"):
        options: dict[str, Any] = {} if kind == "row_count_change" else {"scope": scope}
        assert "below 't/'" in judged(repo, MAKE[kind](**options)).reason
        assert judged(repo, MAKE[kind](missing="allow", **options)).passed


@pytest.mark.parametrize("kind", [kind for kind in MAKE if kind not in {"row_count", "freshness"}])
def test_a_run_that_leaves_what_is_there_as_it_is_passes(repo, kind):
    gate = MAKE[kind](**({} if kind == "row_count_change" else {"scope": "changes"}))
    assert said(repo, gate, {}, on_main={"t/a.parquet": rows(3)}) == ""


def test_that_nothing_is_left_below_a_prefix_is_judged_again(repo):
    """The change set is the same, and the files beside it differ."""
    gate = MAKE["schema"]()
    publish(repo, "before", 3)
    run = repo.runs.open("hour")
    run.put("elsewhere", b"1")
    run.commit_staged()
    assert run.judge([gate])[0].passed
    repo.branch("main").delete("t/before/a.parquet")
    repo.branch("main").commit("gone")
    assert not run.judge([gate])[0].passed


def test_removing_everything_is_no_lack_where_a_branch_was_reset(repo):
    publish(repo, "first", 3)
    repo.gates.require("main", MAKE["schema"](), MAKE["unique"]())
    repo.runs.rollback("first")
    assert not repo.ref("main").exists("t/first/a.parquet")


def test_dbt_results_lists_what_failed_first(repo):
    gate = checks.dbt_results("o/")
    passing = [(f"test.flights.t{number}.f2c2", "pass", None) for number in range(70)]
    twice = [("model.a.m", "success", "OK"), ("model.b.m", "success", "OK")]
    facts = judged(repo, gate, dbt(*twice, *passing, FAILED)).facts
    assert facts["tests"] == 71
    assert next(iter(facts["results"])) == "not_null_departures_flight"
    assert len(facts["results"]) == 64
    facts = judged(repo, gate, dbt(*twice, TEST)).facts
    assert [*facts["results"]] == ["unique_departures_flight", "model.a.m", "model.b.m"]
