"""What Dagster's own IO managers do with values, annotations and settings."""

import warnings
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dagster_graveler import GravelerIOManager, GravelerResource, graveler_definitions

ABC = dg.StaticPartitionsDefinition(["a", "b", "c"])
DAYS = dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-04")
BEFORE = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
KEEPS = [True]
EMPTY: set[str] = set()

with warnings.catch_warnings():  # backfill policies are in beta
    warnings.simplefilter("ignore", dg.BetaWarning)

    @dg.asset(partitions_def=ABC, backfill_policy=dg.BackfillPolicy.single_run())
    def kept(context: dg.AssetExecutionContext):
        whole = {key: None if key in EMPTY else key for key in context.partition_keys}
        return (whole if len(whole) > 1 else "one") if KEEPS[0] else None


@pytest.fixture
def run(resource, instance):
    """Run the job of some assets; return the result."""

    def run(assets, partition=None, tags=None, raise_on_error=True, **given):
        manager = given.pop("manager", None) or GravelerIOManager(graveler=resource, pickle=True)
        defs = graveler_definitions(assets, resource, io_manager=manager, **given)
        return defs.resolve_job_def("graveler_job").execute_in_process(
            instance=instance, partition_key=partition, tags=tags, raise_on_error=raise_on_error
        )

    return run


def on_main(repo):
    return [entry.path for entry in repo.ref("main").entries()]


def test_none_of_one_partition_removes_its_file_alone(repo, run):
    KEEPS[0] = True
    whole = dict(zip(RANGE, ("a", "c"), strict=True))
    run([kept], tags=whole)
    EMPTY.update("bc")
    run([kept], tags=whole)
    assert on_main(repo) == ["kept/a/data"]
    EMPTY.update("a")
    run([kept], tags=dict(zip(RANGE, ("a", "b"), strict=True)))
    assert on_main(repo) == []
    EMPTY.clear()


@pytest.mark.parametrize("writer", ["the same key", "a range"])
def test_none_removes_the_file_whoever_wrote_it(repo, run, writer):
    KEEPS[0] = True
    if writer == "a range":
        run([kept], tags=dict(zip(RANGE, ("a", "b"), strict=True)))
    else:
        run([kept], "a"), run([kept], "b")
    KEEPS[0] = False
    run([kept], "a")
    assert on_main(repo) == ["kept/b/data"]
    run([kept], "c")
    assert on_main(repo) == ["kept/b/data"]


def test_none_leaves_the_files_that_an_asset_wrote_itself(repo, run):
    writes = [True]

    @dg.asset
    def own(context: dg.AssetExecutionContext, graveler: GravelerResource):
        if writes[0]:
            with graveler.step(context) as step:
                step.write(pd.DataFrame({"n": [1]}), "own/")

    run([own])
    before = on_main(repo)
    writes[0] = False
    run([own])
    assert len(before) == 1
    assert on_main(repo) == before


@pytest.mark.parametrize(
    "kind", [None, pd.DataFrame | None, dict[str, pd.DataFrame] | None], ids=str
)
def test_a_self_dependent_asset_gets_none_at_first(run, kind):
    seen = []

    def balance(balance):
        seen.append(balance)
        return pd.DataFrame({"n": [1]})

    balance.__annotations__ = {} if kind is None else {"balance": kind}
    asset = dg.asset(partitions_def=DAYS, ins={"balance": dg.AssetIn(partition_mapping=BEFORE)})(
        balance
    )
    run([asset], "2013-01-01")
    run([asset], "2013-01-02")
    assert seen[0] is None
    assert seen[1] is not None


@pytest.mark.parametrize("kind", [dict[str, str] | None, dict, dict[str, str]], ids=str)
def test_a_mapping_by_partition_may_be_annotated_in_any_way(repo, run, kind):
    @dg.asset(partitions_def=ABC)
    def letters(context: dg.AssetExecutionContext) -> str:
        return str(context.partition_key)

    def joined(letters):
        return "".join(sorted(letters.values()))

    joined.__annotations__ = {"letters": kind, "return": str}
    mapping = dg.AllPartitionMapping()
    whole = dg.asset(ins={"letters": dg.AssetIn(partition_mapping=mapping)})(joined)
    for key in "abc":
        run([letters], key)
    run([dg.AssetSpec("letters", partitions_def=ABC), whole])
    assert repo.ref("main").get("joined/data") == b"abc"


def test_an_op_may_take_a_list_of_outputs(repo, resource, instance):
    @dg.op(out=dg.DynamicOut(str))
    def numbers():
        yield dg.DynamicOutput("1", "one")
        yield dg.DynamicOutput("2", "two")

    @dg.op
    def same(number: str) -> str:
        return number

    @dg.op
    def joined(numbers: list[str]) -> str:
        return "".join(sorted(numbers))

    @dg.graph_asset
    def whole():
        return joined(numbers().map(same).collect())

    manager = GravelerIOManager(graveler=resource)
    defs = graveler_definitions([whole], resource, io_manager=manager)
    assert defs.resolve_job_def("graveler_job").execute_in_process(instance=instance).success
    assert repo.ref("main").get("whole/data") == b"12"


def test_an_optional_value_that_is_none_is_none(run):
    @dg.asset
    def perhaps() -> pd.DataFrame | None:
        return None

    seen = []

    @dg.asset
    def after(perhaps: pd.DataFrame | None) -> str:
        seen.append(perhaps)
        return "after"

    run([perhaps, after])
    assert seen == [None]


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("library", FRAMES)
def test_partitions_with_other_columns_are_united(run, library):
    kind = type(FRAMES[library]({"n": [1]}))

    def made(context: dg.AssetExecutionContext):
        key = context.partition_key
        return FRAMES[library]({"n": [1], **({"late": [2]} if key == "b" else {})})

    seen = []

    def whole(made):
        seen.append(made)

    whole.__annotations__ = {"made": kind, "return": None}
    assets = [
        dg.asset(partitions_def=ABC)(made),
        dg.asset(
            ins={
                "made": dg.AssetIn(
                    partition_mapping=dg.SpecificPartitionsPartitionMapping(["a", "b"])
                )
            }
        )(whole),
    ]
    for key in "ab":
        run(assets[:1], key)
    run([dg.AssetSpec("made", partitions_def=ABC), assets[1]])
    columns = getattr(seen[0], "column_names", None) or list(seen[0].columns)
    assert columns == ["n", "late"]


class Prices(pd.DataFrame):  # type: ignore[misc] # pandas has no types
    """A frame with a class of its own."""


class Sales(pl.DataFrame):
    """A frame with a class of its own."""


@pytest.mark.parametrize("kind", [Prices, Sales])
def test_a_subclass_of_a_frame_is_read_as_such(run, kind):
    def made():
        return kind({"n": [1]})

    def after(made):
        assert type(made) is kind

    made.__annotations__ = {"return": kind}
    after.__annotations__ = {"made": kind, "return": None}
    run([dg.asset(made), dg.asset(after)])


def test_a_resource_may_be_configured_at_launch(lake, instance, repo):
    @dg.asset
    def made() -> str:
        return "made"

    partial: Any = GravelerResource.configure_at_launch(repository="flights")
    defs = graveler_definitions([made], partial)
    dg.Definitions.validate_loadable(defs)
    resources = {"graveler": {"config": {"lake": lake, "repository": "flights"}}}
    done = defs.resolve_job_def("graveler_job").execute_in_process(
        instance=instance, run_config={"resources": resources}
    )
    assert done.success
    assert on_main(repo) == ["made/data"]


def test_two_pipelines_of_one_resource_share_its_manager(resource):
    @dg.asset
    def one() -> None: ...

    @dg.asset
    def two() -> None: ...

    defs = dg.Definitions.merge(
        graveler_definitions([one], resource, name="one"),
        graveler_definitions([two], resource, name="two"),
    )
    dg.Definitions.validate_loadable(defs)


def test_a_manager_works_without_a_run(repo, resource):
    manager = GravelerIOManager(graveler=resource)
    frame = pd.DataFrame({"n": [1, 2]})
    output = dg.build_output_context(asset_key="made")
    manager.handle_output(output, frame)
    kind = dg.PythonObjectDagsterType(pd.DataFrame)
    loads = dg.build_input_context(upstream_output=output, asset_key="made", dagster_type=kind)
    assert manager.load_input(loads).equals(frame)

    of_a: dict[str, Any] = {"asset_key": "parts", "partition_key": "a", "asset_partitions_def": ABC}
    output = dg.build_output_context(**of_a)
    manager.handle_output(output, frame)
    (path,) = (entry.path for entry in repo.ref("main").entries("parts/"))
    assert path == "parts/a/data.parquet"
    loads = dg.build_input_context(upstream_output=output, dagster_type=kind, **of_a)
    assert manager.load_input(loads).equals(frame)


def totals(kind, **metadata):
    """Return an asset that adds to its value of the day before."""

    def total(total):
        return "1" if total is None else f"{total}1"

    total.__annotations__ = {"total": kind, "return": str}
    before = dg.AssetIn(partition_mapping=BEFORE, metadata=metadata)
    return dg.asset(partitions_def=DAYS, ins={"total": before})(total)


@pytest.mark.parametrize("kind", [str | None, dict[str, str] | None], ids=str)
def test_a_day_before_that_was_never_made_is_not_none(repo, run, kind):
    failed = run([totals(kind)], "2013-01-02", raise_on_error=False)
    assert not failed.success
    (event,) = failed.get_step_failure_events()
    if kind == str | None:
        assert "total (2013-01-01) has no files: it was never made" in str(
            event.event_specific_data
        )
    assert on_main(repo) == []


def test_a_day_before_that_was_rolled_back_is_not_none(repo, run):
    run([totals(str | None)], "2013-01-01")
    (record,) = repo.runs.list()
    repo.runs.rollback(record.key)
    failed = run([totals(str | None)], "2013-01-02", raise_on_error=False)
    assert not failed.success
    assert on_main(repo) == []
    run([totals(str | None)], "2013-01-01")
    run([totals(str | None)], "2013-01-02")
    assert [repo.ref("main").get(path) for path in on_main(repo)] == [b"1", b"11"]


def test_a_lost_value_is_refused_by_the_run_that_made_it(repo, run):
    @dg.asset(partitions_def=DAYS)
    def first() -> str:
        return "1"

    @dg.asset(partitions_def=DAYS, ins={"first": dg.AssetIn(partition_mapping=BEFORE)})
    def after(first: str) -> str:
        return first

    run([first], "2013-01-01")
    repo.revert("main", on="main")
    spec = dg.AssetSpec("first", partitions_def=DAYS)
    failed = run([spec, after], "2013-01-02", raise_on_error=False)
    (event,) = failed.get_step_failure_events()
    said = str(event.event_specific_data)
    assert (
        "first (2013-01-01) has no files: 'dagster graveler_job 2013-01-01', which made it" in said
    )
    assert "is not published: materialize it first" in said


def test_a_day_before_may_be_missing_if_the_input_says_so(repo, run):
    run([totals(str | None, allow_missing_partitions=True)], "2013-01-02")
    assert [repo.ref("main").get(path) for path in on_main(repo)] == [b"1"]


def test_none_that_an_asset_returned_is_none(repo, run):
    @dg.asset(partitions_def=DAYS)
    def empty() -> str | None:
        return None

    @dg.asset(partitions_def=DAYS)
    def after(empty: str | None) -> str:
        return f"after {empty}"

    run([empty], "2013-01-01")
    run([dg.AssetSpec("empty", partitions_def=DAYS), after], "2013-01-01")
    assert [repo.ref("main").get(path) for path in on_main(repo)] == [b"after None"]
