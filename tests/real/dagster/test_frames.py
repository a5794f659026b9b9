"""Frames of pandas and polars, folders by a layout, and runs for several partitions."""

from datetime import UTC, datetime

import dagster as dg
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dagster_graveler import (
    GravelerIOManager,
    build_publish_asset,
)
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames.libraries import library_named
from graveler.frames.rows import PartitionRows

pytestmark = pytest.mark.filterwarnings(
    "ignore:Parameter `backfill_policy`"
)  # a beta feature of Dagster

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
HOURS = ["2013-01-01-05:00", "2013-01-01-06:00", "2013-01-01-07:00"]
FOLDERS = ["2013/01/01/05:00", "2013/01/01/06:00", "2013/01/01/07:00"]
RANGE = {
    "dagster/asset_partition_range_start": HOURS[0],
    "dagster/asset_partition_range_end": HOURS[-1],
}
ONCE = dg.BackfillPolicy.single_run()


@pytest.fixture
def materialize(resource, instance):
    def execute(assets, manager, **given):
        publish = build_publish_asset(
            "publish",
            assets,
            partitions_def=assets[0].partitions_def,
            backfill_policy=assets[0].backfill_policy,
        )
        return dg.materialize(
            [*assets, publish],
            resources={"graveler": resource, "io_manager": manager},
            instance=instance,
            **given,
        )

    return execute


def paths(repo):
    return [entry.path for entry in repo.ref("main").entries()]


def at(hour):
    return datetime(2013, 1, 1, hour, 30, tzinfo=UTC)


def pandas_frame(keys):
    return pd.DataFrame({"hour": keys, "n": range(len(keys))})


@pytest.mark.parametrize(
    ("manager", "frame", "lib"),
    [
        (GravelerIOManager, pd.DataFrame({"n": [1, 2]}), pd),
        (GravelerIOManager, pl.DataFrame({"n": [1, 2]}), pl),
        (GravelerIOManager, pl.LazyFrame({"n": [1, 2]}), pl),
    ],
    ids=["pandas", "polars", "polars, lazy"],
)
def test_a_frame_is_a_parquet_file_that_other_assets_read(
    repo, resource, materialize, manager, frame, lib
):
    seen = []

    @dg.asset
    def numbers():
        return frame

    @dg.asset
    def reader(numbers):
        seen.append(numbers)
        return b"bytes are kept as they are"

    result = materialize([numbers, reader], manager(graveler=resource, prefix="tables/"))
    assert paths(repo) == ["tables/numbers/data.parquet", "tables/reader/data"]
    assert isinstance(seen[0], lib.DataFrame)
    assert seen[0]["n"].to_list() == [1, 2]
    (made,) = result.asset_materializations_for_node("numbers")
    if not isinstance(frame, pl.LazyFrame):
        assert made.metadata["dagster/row_count"].value == 2
        (column,) = made.metadata["dagster/column_schema"].value.columns
        assert column.name == "n"


LINEAGE = dg.TableColumnLineage(
    {
        "n": [dg.TableColumnDep(dg.AssetKey("raw"), "count")],
        "gone": [dg.TableColumnDep(dg.AssetKey("raw"), "old")],
    }
)
OWN = dg.TableColumnLineage({"n": [dg.TableColumnDep(dg.AssetKey("other"), "m")]})


def test_lineage_of_a_definition_is_shown_where_it_holds(resource, materialize, capsys):
    @dg.asset(metadata={"dagster/column_lineage": LINEAGE})
    def numbers():
        return pl.DataFrame({"n": [1, 2], "added": [3, 4]})

    result = materialize([numbers], GravelerIOManager(graveler=resource))
    (made,) = result.asset_materializations_for_node("numbers")
    lineage = made.metadata["dagster/column_lineage"].value
    assert lineage.deps_by_column == {"n": LINEAGE.deps_by_column["n"]}
    assert "does not have: gone; it has n, added" in capsys.readouterr().err


def test_lineage_that_a_step_adds_itself_stays(resource, materialize):
    @dg.asset(metadata={"dagster/column_lineage": LINEAGE})
    def numbers(context: dg.AssetExecutionContext):
        context.add_output_metadata({"dagster/column_lineage": OWN})
        return pl.DataFrame({"n": [1, 2]})

    result = materialize([numbers], GravelerIOManager(graveler=resource))
    (made,) = result.asset_materializations_for_node("numbers")
    assert made.metadata["dagster/column_lineage"].value == OWN


def test_an_argument_annotated_as_lazy_gets_a_lazy_frame(resource, materialize):
    seen = []

    @dg.asset
    def numbers():
        return pl.DataFrame({"n": [1, 2]})

    @dg.asset
    def reader(numbers: pl.LazyFrame) -> None:
        seen.append(numbers)

    materialize([numbers, reader], GravelerIOManager(graveler=resource))
    assert_frame_equal(seen[0].collect(), pl.DataFrame({"n": [1, 2]}))


def test_a_layout_puts_the_hour_first(repo, resource, materialize):
    @dg.asset(partitions_def=hours, key=["raw", "events"])
    def events() -> bytes:
        return b"1"

    manager = GravelerIOManager(graveler=resource, prefix="input/", layout="{partition}/{asset}")
    materialize([events], manager, partition_key=HOURS[0])
    assert paths(repo) == ["input/2013/01/01/05:00/raw/events/data"]


def test_a_layout_that_would_lose_data_is_refused(repo, resource, materialize):
    @dg.asset(partitions_def=hours)
    def events() -> bytes:
        return b"1"

    with pytest.raises(InvalidInputError, match=r"has no \{partition\}"):
        materialize(
            [events],
            GravelerIOManager(graveler=resource, layout="{asset}"),
            partition_key=HOURS[0],
        )
    assert paths(repo) == []


def test_a_backfill_in_one_run_publishes_its_hours_in_one_commit(
    repo, resource, instance, materialize
):
    @dg.asset(partitions_def=hours, backfill_policy=ONCE)
    def raw(context: dg.AssetExecutionContext):
        return {key: pandas_frame([key]) for key in context.partition_keys}

    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "hour"})
    def doubled(raw):
        return pd.concat([raw, raw])

    manager = GravelerIOManager(graveler=resource)
    before = len(list(repo.log("main")))
    result = materialize([raw, doubled], manager, tags=RANGE)
    assert paths(repo) == [
        f"{name}/{folder}/data.parquet" for name in ("doubled", "raw") for folder in FOLDERS
    ]
    commit = repo.commit("main")
    assert len(list(repo.log("main", first_parent=True))) == before + 1
    assert commit.metadata["dagster.partition"] == f"{HOURS[0]}...{HOURS[-1]}"
    assert commit.metadata["hour"] == "2013-01-01T05:00Z"
    published = result.asset_materializations_for_node("publish")
    assert sorted(str(event.partition) for event in published) == HOURS
    assert {event.metadata["graveler/commit"].value for event in published} == {commit.id}


TIMES = [at(5), at(6), at(6)]


@pytest.mark.parametrize(
    ("manager", "frame"),
    [
        (GravelerIOManager, pd.DataFrame({"at": TIMES, "n": range(3)})),
        (
            GravelerIOManager,
            pd.DataFrame({"at": [time.replace(tzinfo=None) for time in TIMES], "n": range(3)}),
        ),
        (GravelerIOManager, pl.DataFrame({"at": TIMES, "n": range(3)})),
        (
            GravelerIOManager,
            pl.LazyFrame({"at": [time.replace(tzinfo=None) for time in TIMES], "n": range(3)}),
        ),
    ],
    ids=["pandas", "pandas, naive", "polars", "polars, naive"],
)
def test_rows_go_to_the_hour_of_their_time(repo, resource, materialize, manager, frame):
    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "at"})
    def events():
        return frame

    materialize([events], manager(graveler=resource), tags=RANGE)
    with_rows = []
    for folder in FOLDERS:
        with repo.ref("main").open(f"events/{folder}/data.parquet") as file:
            with_rows.append(pd.read_parquet(file)["n"].to_list())
    assert with_rows == [[0], [1, 2], []]


def test_rows_of_a_spark_frame_go_to_the_hour_of_their_time(spark, repo, resource, materialize):
    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "at"})
    def events():
        return spark.createDataFrame(
            [(time, n) for n, time in enumerate(TIMES)], "at timestamp, n int"
        )

    materialize([events], GravelerIOManager(graveler=resource), tags=RANGE)
    written = {path.rpartition("/")[0] for path in paths(repo)}
    assert written >= {f"events/{folder}" for folder in FOLDERS[:2]}


def test_naive_times_of_a_spark_frame_are_in_the_zone(spark):
    day = PartitionRows(
        "2013-10-27",
        datetime(2013, 10, 26, 22, tzinfo=UTC),
        datetime(2013, 10, 27, 23, tzinfo=UTC),
        "Europe/Berlin",
    )
    times = [datetime.fromisoformat(f"2013-10-27T{hour}:30") for hour in ("00", "02", "23")]
    frame = spark.createDataFrame([(time,) for time in times], "at timestamp_ntz")
    parts = library_named("spark").split_rows(frame, "at", {day.key: day})
    assert parts[day.key].count() == len(times)
    with pytest.raises(InvalidInputError, match="rows belong to none"):
        other = spark.sql("SELECT TIMESTAMP_NTZ '2013-10-26 23:30:00' AS at")
        library_named("spark").split_rows(other, "at", {day.key: day})


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (pandas_frame([*HOURS, "2013-01-01-09:00"]), "1 rows belong to none of the partitions"),
        (pd.DataFrame({"n": [1]}), "no column 'hour'"),
        ({HOURS[0]: pandas_frame([])}, "differs at"),
        (b"one", "cannot be split"),
    ],
    ids=["a row of another partition", "no column", "a partition is missing", "bytes"],
)
def test_values_that_cannot_be_split_are_refused(repo, resource, materialize, returned, message):
    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "hour"})
    def events():
        return returned

    with pytest.raises(InvalidInputError, match=message):
        materialize([events], GravelerIOManager(graveler=resource), tags=RANGE)
    assert paths(repo) == []


ONE_HOUR = [
    pytest.param({"partition_key": HOURS[0]}, id="an hour"),
    pytest.param({"tags": dict.fromkeys(RANGE, HOURS[0])}, id="a backfill of an hour"),
]


@pytest.mark.parametrize("given", ONE_HOUR)
@pytest.mark.parametrize(
    ("manager", "frame"),
    [
        (GravelerIOManager, pd.DataFrame({"at": TIMES})),
        (GravelerIOManager, pl.DataFrame({"at": TIMES})),
        (GravelerIOManager, pl.LazyFrame({"at": TIMES})),
    ],
    ids=["pandas", "polars", "polars, lazy"],
)
def test_a_row_of_another_hour_is_refused_in_a_run_of_one_too(
    repo, resource, materialize, manager, frame, given
):
    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "at"})
    def events():
        return frame

    with pytest.raises(InvalidInputError, match="2 rows belong to none of the partitions"):
        materialize([events], manager(graveler=resource), **given)
    assert paths(repo) == []


def test_a_spark_row_of_another_hour_is_refused_in_a_single_run(spark, repo, resource, materialize):
    @dg.asset(partitions_def=hours, metadata={"partition_expr": "at"})
    def events():
        return spark.createDataFrame([(time,) for time in TIMES], "at timestamp")

    with pytest.raises(InvalidInputError, match="rows belong to none of the partitions"):
        materialize([events], GravelerIOManager(graveler=resource), partition_key=HOURS[0])
    assert paths(repo) == []


@pytest.mark.parametrize("given", ONE_HOUR)
def test_the_rows_of_one_hour_are_written_as_they_are(repo, resource, materialize, given):
    frame = pd.DataFrame({"at": TIMES[:1], "n": [1]})

    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "at"})
    def events():
        return frame

    @dg.asset(partitions_def=hours, backfill_policy=ONCE, metadata={"partition_expr": "at"})
    def note() -> str:
        return "text has no rows"

    materialize([events, note], GravelerIOManager(graveler=resource), **given)
    with repo.ref("main").open(f"events/{FOLDERS[0]}/data.parquet") as file:
        assert pl.read_parquet(file.read()).columns == ["at", "n"]


def test_one_value_for_many_partitions_is_refused(repo, resource, materialize):
    @dg.asset(partitions_def=hours, backfill_policy=ONCE)
    def events():
        return b"one"

    with pytest.raises(InvalidInputError, match="returned one bytes: return a mapping"):
        materialize([events], GravelerIOManager(graveler=resource), tags=RANGE)
    assert paths(repo) == []


@pytest.fixture
def reading(resource, materialize, instance):
    """Write a value for each hour; return what an asset of all hours receives."""

    def read(manager, value, annotation=None):
        @dg.asset(partitions_def=hours, backfill_policy=ONCE)
        def events(context: dg.AssetExecutionContext):
            return {key: value(n) for n, key in enumerate(context.partition_keys)}

        def total(events):
            seen.append(events)
            return b"read"

        if annotation is not None:
            total.__annotations__["events"] = annotation
        seen: list[object] = []
        mapping = dg.SpecificPartitionsPartitionMapping(HOURS)
        reader = dg.asset(ins={"events": dg.AssetIn(partition_mapping=mapping)})(total)
        materialize([events], manager, tags=RANGE)
        dg.materialize(
            [events, reader],
            selection=["total"],
            resources={"graveler": resource, "io_manager": manager},
            instance=instance,
        )
        return seen[0]

    return read


def test_a_dictionary_annotates_the_type_of_its_values(resource, reading):
    results = reading(GravelerIOManager(graveler=resource), str, dict[str, str])
    assert results == {key: str(n) for n, key in enumerate(HOURS)}


def test_a_dictionary_of_lazy_frames_holds_lazy_frames(resource, reading):
    results = reading(
        GravelerIOManager(graveler=resource),
        lambda n: pl.DataFrame({"n": [n]}),
        dict[str, pl.LazyFrame],
    )
    assert [frame.collect()["n"].to_list() for frame in results.values()] == [[0], [1], [2]]


def test_an_hour_without_rows_or_types_is_read_with_the_others(resource, reading):
    results = reading(
        GravelerIOManager(graveler=resource),
        lambda n: pl.DataFrame({"n": [n] if n else []}),
    )
    assert_frame_equal(results, pl.DataFrame({"n": [1, 2]}))


@pytest.mark.parametrize("allowed", [True, False])
def test_missing_partitions_are_left_out_where_allowed(resource, materialize, instance, allowed):
    @dg.asset(partitions_def=hours, backfill_policy=ONCE)
    def events() -> bytes:
        return b"1"

    seen = []

    @dg.asset(
        ins={
            "events": dg.AssetIn(
                metadata={"allow_missing_partitions": allowed},
                partition_mapping=dg.SpecificPartitionsPartitionMapping(HOURS[:2]),
            )
        },
    )
    def total(events: dict[str, bytes]) -> None:
        seen.append(events)

    manager = GravelerIOManager(graveler=resource)
    materialize([events], manager, partition_key=HOURS[0])
    made = {"resources": {"graveler": resource, "io_manager": manager}, "instance": instance}
    if allowed:
        dg.materialize([events, total], selection=["total"], **made)
        assert seen == [{HOURS[0]: b"1"}]
    else:
        with pytest.raises(ObjectNotFoundError):
            dg.materialize([events, total], selection=["total"], **made)
