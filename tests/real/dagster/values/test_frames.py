"""Frames of several partitions in one run, folders by a layout, and rows by their time."""

from datetime import UTC, datetime
from io import BytesIO
from itertools import count

import dagster as dg
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from graveler import frames
from graveler.errors import InvalidInputError, ObjectNotFoundError
from tests.real.dagster.programs.looking import on_main

pytestmark = pytest.mark.filterwarnings(
    "ignore:Parameter `backfill_policy`"
)  # a beta feature of Dagster

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
HOURS = ["2013-01-01-05:00", "2013-01-01-06:00", "2013-01-01-07:00"]
FOLDERS = ["2013/01/01/05:00", "2013/01/01/06:00", "2013/01/01/07:00"]
ENDS = (HOURS[0], HOURS[-1])
ONCE = dg.BackfillPolicy.single_run()
TIMES = [datetime(2013, 1, 1, hour, 30, tzinfo=UTC) for hour in (5, 6, 6)]
NAIVE = [time.replace(tzinfo=None) for time in TIMES]


def events_of(value, expression="at"):
    """Return an asset of hours that returns a value; its rows go to the hour of an expression."""

    @dg.asset(
        partitions_def=hours,
        backfill_policy=ONCE,
        metadata={"partition_expr": expression} if expression else {},
    )
    def events():
        return value

    return events


def by_hour(keys):
    return pd.DataFrame({"hour": keys, "n": range(len(keys))})


def test_a_layout_puts_the_hour_first(repo, make):
    @dg.asset(partitions_def=hours, key=["raw", "events"])
    def events() -> bytes:
        return b"1"

    layout = {"prefix": "input/", "layout": "{partition}/{asset}"}
    make(events, partition=HOURS[0], manager=layout)
    written = ["input/2013/01/01/05:00/raw/events/data"]
    assert on_main(repo) == written
    with pytest.raises(InvalidInputError, match=r"has no \{partition\}"):
        make(events, partition=HOURS[0], manager={"layout": "{asset}"})
    assert on_main(repo) == written


def test_a_backfill_in_one_run_publishes_its_hours_in_one_commit(repo, make):
    @dg.asset(partitions_def=hours, backfill_policy=ONCE)
    def raw(context: dg.AssetExecutionContext):
        return {key: by_hour([key]) for key in context.partition_keys}

    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "hour"})
    def doubled(raw):
        return pd.concat([raw, raw])

    before = len(list(repo.log("main")))
    result = make(raw, doubled, ends=ENDS)
    assert on_main(repo) == [
        f"{name}/{folder}/data.parquet" for name in ("doubled", "raw") for folder in FOLDERS
    ]
    commit = repo.commit("main")
    assert len(list(repo.log("main", first_parent=True))) == before + 1
    assert commit.metadata["dagster.partition"] == f"{HOURS[0]}...{HOURS[-1]}"
    assert commit.metadata["hour"] == "2013-01-01T05:00Z"
    published = result.asset_materializations_for_node("publish")
    assert sorted(str(event.partition) for event in published) == HOURS
    assert {event.metadata["graveler/commit"].value for event in published} == {commit.id}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"at": TIMES, "n": range(3)}),
        pl.LazyFrame({"at": NAIVE, "n": range(3)}),
    ],
    ids=["pandas", "polars, naive"],
)
def test_rows_go_to_the_hour_of_their_time(repo, make, frame):
    make(events_of(frame), ends=ENDS)
    found = []
    for folder in FOLDERS:
        with repo.ref("main").open(f"events/{folder}/data.parquet") as file:
            found.append(pd.read_parquet(file)["n"].to_list())
    assert found == [[0], [1, 2], []]


@pytest.mark.parametrize(
    ("returned", "expression", "message"),
    [
        (by_hour([*HOURS, "2013-01-01-09:00"]), "hour", "1 rows belong to none of the partitions"),
        (pd.DataFrame({"n": [1]}), "hour", "no column 'hour'"),
        ({HOURS[0]: by_hour([])}, "hour", "differs at"),
        (b"one", "hour", "cannot be split"),
        (b"one", "", "returned one bytes: return a mapping"),
    ],
    ids=["a row of another partition", "no column", "a partition is missing", "bytes", "one value"],
)
def test_values_that_cannot_be_split_are_refused(repo, make, returned, expression, message):
    with pytest.raises(InvalidInputError, match=message):
        make(events_of(returned, expression), ends=ENDS)
    assert on_main(repo) == []


@pytest.mark.parametrize(
    "given",
    [{"partition": HOURS[0]}, {"ends": (HOURS[0], HOURS[0])}],
    ids=["an hour", "a backfill of an hour"],
)
def test_a_run_of_one_hour_takes_rows_of_that_hour_only(repo, make, given):
    with pytest.raises(InvalidInputError, match="2 rows belong to none of the partitions"):
        make(events_of(pl.LazyFrame({"at": TIMES})), **given)
    assert on_main(repo) == []

    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "at"})
    def note() -> str:
        return "text has no rows"

    make(events_of(pd.DataFrame({"at": TIMES[:1], "n": [1]})), note, **given)
    with repo.ref("main").open(f"events/{FOLDERS[0]}/data.parquet") as file:
        assert pl.read_parquet(file.read()).columns == ["at", "n"]


@pytest.fixture
def reading(make):
    """Write a value for each hour; return what an asset of all hours receives."""

    def read(value, annotation=None, made=HOURS, **metadata):
        @dg.asset(partitions_def=hours, backfill_policy=ONCE)
        def events(context: dg.AssetExecutionContext):
            return {key: value(n) for n, key in enumerate(context.partition_keys)}

        def total(events):
            seen.append(events)

        total.__annotations__ = {"return": None}
        if annotation is not None:
            total.__annotations__["events"] = annotation
        seen: list[object] = []
        mapping = dg.SpecificPartitionsPartitionMapping(HOURS)
        needs = dg.AssetIn(partition_mapping=mapping, metadata=metadata)
        make(events, ends=(made[0], made[-1]))
        make(dg.asset(ins={"events": needs})(total), events, selection=["total"])
        return seen[0]

    return read


@pytest.mark.parametrize("kind", [dict[str, str], dict[str, str] | None, dict], ids=str)
def test_a_dictionary_annotates_the_type_of_its_values(reading, kind):
    assert reading(str, kind) == {key: str(n) for n, key in enumerate(HOURS)}


def test_a_dictionary_of_lazy_frames_holds_lazy_frames(reading):
    found = reading(lambda n: pl.DataFrame({"n": [n]}), dict[str, pl.LazyFrame])
    assert [frame.collect()["n"].to_list() for frame in found.values()] == [[0], [1], [2]]


def test_an_hour_without_rows_or_types_is_read_with_the_others(reading):
    found = reading(lambda n: pl.DataFrame({"n": [n] if n else []}))
    assert_frame_equal(found, pl.DataFrame({"n": [1, 2]}))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_partitions_with_other_columns_are_united(reading, library):
    found = reading(lambda n: library({"n": [n], **({"late": [2]} if n else {})}))
    assert list(found.columns) == ["n", "late"]


def test_missing_partitions_are_left_out_where_allowed(reading):
    made = HOURS[:2]
    found = reading(str, dict[str, str], made, allow_missing_partitions=True)
    assert found == {key: str(n) for n, key in enumerate(made)}
    with pytest.raises(ObjectNotFoundError):
        reading(str, dict[str, str], made)


def test_the_files_of_an_input_are_those_that_were_listed(repo, monkeypatch):
    main, versions = repo.create_branch("listed"), count(1)

    def put_version(version):
        body = BytesIO()
        pd.DataFrame({"version": [version]}).to_parquet(body)
        for part in range(5):
            repo.branch("listed").put(f"asset/{part}.parquet", body.getvalue())

    put_version(0)
    original = main.open

    def open_later(path):
        put_version(next(versions))
        return original(path)

    monkeypatch.setattr(main, "open", open_later)
    assert frames.read(main, "asset/", "pyarrow").column("version").to_pylist() == [0] * 5
