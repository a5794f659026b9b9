"""Values of assets as folders of the lake, and what Dagster's own IO managers do with them."""

from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pytest

from dagster_graveler import GravelerIOManager, GravelerResource, graveler_definitions
from dagster_graveler.context import partition_folder
from graveler import frames
from graveler.errors import InvalidInputError
from tests.real.dagster.programs.looking import on_main, reason, tree

pytestmark = [  # beta features of Dagster
    pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`"),
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
]

ABC = dg.StaticPartitionsDefinition(["a", "b", "c"])
DAYS = dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-04")
BEFORE = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_in_memory_are_appended(repo, make, library):
    numbers = iter(range(9))

    @dg.asset(retry_policy=dg.RetryPolicy(max_retries=1))
    def runs(context: dg.AssetExecutionContext):
        yield dg.Output(library({"n": [next(numbers)]}))
        if context.retry_number == 0:
            raise ConnectionError("lost after writing")

    @dg.asset(partitions_def=ABC)
    def hour():
        return library({"n": [next(numbers)]})

    for _ in range(2):
        make(runs, manager={"mode": "append"})
    assert sorted(frames.read(repo.ref("main"), "runs/", pd.DataFrame)["n"]) == [1, 3]
    for _ in range(2):
        make(hour, partition="a", manager={"mode": "append"})
    assert list(frames.read(repo.ref("main"), "hour/a/", pd.DataFrame)["n"]) == [5]


def test_none_removes_what_an_unpublished_run_wrote(make, repo):
    runs = []

    @dg.asset(partitions_def=ABC)
    def made():
        runs.append(1)
        return b"rows" if len(runs) == 1 else None

    @dg.asset(partitions_def=ABC, deps=[made])
    def other() -> bytes:
        if len(runs) == 1:
            raise ConnectionError("lost")
        return b"1"

    assert not make(made, other, partition="a", raise_on_error=False).success
    make(made, other, partition="a")
    assert on_main(repo) == ["other/a/data"]


@pytest.fixture
def kept():
    """An asset of letters that returns its keys, but None for those that are emptied."""

    emptied: set[str] = set()

    @dg.asset(partitions_def=ABC, backfill_policy=dg.BackfillPolicy.single_run())
    def kept(context: dg.AssetExecutionContext):
        whole = {key: None if key in emptied else key for key in context.partition_keys}
        return whole if len(whole) > 1 else next(iter(whole.values()))

    return kept, emptied


def test_none_of_one_partition_removes_its_file_alone(repo, run_job, kept):
    asset, emptied = kept
    run_job([asset], ends=("a", "c"))
    emptied.update("bc")
    run_job([asset], ends=("a", "c"))
    assert on_main(repo) == ["kept/a/data"]
    emptied.add("a")
    run_job([asset], ends=("a", "b"))
    assert on_main(repo) == []


@pytest.mark.parametrize("writers", [("a", "b"), (("a", "b"),)], ids=["the same key", "a range"])
def test_none_removes_the_file_whoever_wrote_it(repo, run_job, kept, writers):
    asset, emptied = kept
    for writer in writers:
        run_job([asset], **({"ends": writer} if len(writers) == 1 else {"partition": writer}))
    emptied.update("ac")
    for key in "ac":
        run_job([asset], key)
        assert on_main(repo) == ["kept/b/data"]


def test_none_leaves_the_files_that_an_asset_wrote_itself(repo, run_job):
    writes = [True]

    @dg.asset
    def own(context: dg.AssetExecutionContext, graveler: GravelerResource):
        if writes.pop():
            with graveler.step(context) as step:
                step.write(pd.DataFrame({"n": [1]}), "own/")
            writes.append(False)

    run_job([own])
    before = on_main(repo)
    run_job([own])
    assert len(before) == 1
    assert on_main(repo) == before


def test_an_output_that_is_none_opens_no_run(resource, instance, repo):
    @dg.asset
    def nothing():
        return None

    manager = GravelerIOManager(graveler=resource)
    dg.materialize([nothing], resources={"io_manager": manager}, instance=instance)
    assert list(repo.runs.list()) == []


def test_assets_after_the_publish_read_what_was_published(make, repo):
    seen = []

    @dg.asset
    def made() -> str:
        return "made"

    @dg.asset(deps=["publish"])
    def after(made: str):
        seen.append(made)

    make(made, after, publishes=[made])
    assert seen == ["made"]
    assert on_main(repo) == ["made/data"]


def test_outside_of_a_run_the_target_is_read_and_written(resource, instance, make, repo):
    @dg.asset(partitions_def=ABC)
    def text(context: dg.AssetExecutionContext) -> str:
        return f"é {context.partition_key}"

    for part in "ab":
        make(text, partition=part)
    manager = GravelerIOManager(graveler=resource)
    defs = dg.Definitions([text], resources={"graveler": resource, "io_manager": manager})
    loaded = defs.load_asset_value("text", python_type=str, partition_key="b", instance=instance)
    assert loaded == "é b"
    assert list(repo.runs.list("OPEN")) == []  # a read opens no run

    frame = pd.DataFrame({"n": [1, 2]})
    kind = dg.PythonObjectDagsterType(pd.DataFrame)
    whole: dict[str, Any] = {"asset_key": "made"}
    of_a = {"asset_key": "parts", "partition_key": "a", "asset_partitions_def": ABC}
    for given in (whole, of_a):
        output = dg.build_output_context(**given)
        manager.handle_output(output, frame)
        loads = dg.build_input_context(upstream_output=output, dagster_type=kind, **given)
        assert manager.load_input(loads).equals(frame)
    assert on_main(repo, "parts/") == ["parts/a/data.parquet"]


def test_outputs_of_ops_have_folders_by_step(resource, instance, repo):
    @dg.op(out={"one": dg.Out(bytes), "two": dg.Out(bytes)})
    def pair():
        yield dg.Output(b"1", "one")
        yield dg.Output(b"2", "two")

    @dg.op
    def add(one: bytes, two: bytes) -> str:
        return (one + two).decode()

    manager = GravelerIOManager(graveler=resource)

    @dg.job(resource_defs={"graveler": resource, "io_manager": manager})
    def adding():
        add(*pair())

    result = adding.execute_in_process(instance=instance)
    assert result.output_for_node("add") == "12"
    (record,) = repo.runs.list()
    assert tree(repo.ref(record.branch)) == {
        f"_dagster/ops/{name}/data": value
        for name, value in {"pair/one": "1", "pair/two": "2", "add/result": "12"}.items()
    }


def test_an_op_may_take_a_list_of_outputs(repo, run_job):
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

    run_job([whole])
    assert tree(repo.ref("main")) == {"whole/data": "12"}  # without the outputs of ops


HOURS = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
IN_NEW_YORK = dg.HourlyPartitionsDefinition("2013-01-01-00:00", timezone="America/New_York")
DAY = dg.DailyPartitionsDefinition("2013-01-01")
GRID = dg.MultiPartitionsDefinition({"day": DAY, "letter": ABC})


@pytest.mark.parametrize(
    ("definition", "key", "folder"),
    [
        (HOURS, "2013-01-01-05:00", "2013/01/01/05:00/"),
        (IN_NEW_YORK, "2013-01-01-05:00", "2013/01/01/10:00/"),
        (DAY, "2013-01-02", "2013/01/02/00:00/"),
        (ABC, "a", "a/"),
        (GRID, "2013-01-02|a", "2013/01/02/00:00/a/"),
    ],
    ids=["hour", "hour elsewhere", "day", "static", "two dimensions"],
)
def test_a_partition_is_a_folder(definition, key, folder):
    assert partition_folder(definition, key) == folder


@pytest.mark.parametrize("key", ["a/b", ".."])
def test_a_partition_that_is_no_folder_is_refused(key):
    with pytest.raises(InvalidInputError, match="another key"):
        partition_folder(dg.StaticPartitionsDefinition([key]), key)


def test_a_resource_may_be_configured_at_launch(lake, instance, repo):
    @dg.asset
    def made() -> str:
        return "made"

    partial: Any = GravelerResource.configure_at_launch(repository="flights")
    defs = graveler_definitions([made], partial)
    dg.Definitions.validate_loadable(defs)
    resources = {"graveler": {"config": {"lake": lake, "repository": "flights"}}}
    defs.resolve_job_def("graveler_job").execute_in_process(
        instance=instance, run_config={"resources": resources}
    )
    assert on_main(repo) == ["made/data"]


def totals(kind, **metadata):
    """Return an asset that adds to its value of the day before."""

    def total(total):
        return "1" if total is None else f"{total}1"

    total.__annotations__ = {} if kind is None else {"total": kind, "return": str}
    before = dg.AssetIn(partition_mapping=BEFORE, metadata=metadata)
    return dg.asset(partitions_def=DAYS, ins={"total": before})(total)


@pytest.mark.parametrize("kind", [None, str | None], ids=str)
def test_a_self_dependent_asset_gets_none_at_first(repo, run_job, kind):
    for day in ("2013-01-01", "2013-01-02"):
        run_job([totals(kind)], day)
    assert list(tree(repo.ref("main")).values()) == ["1", "11"]


@pytest.mark.parametrize("kind", [str | None, dict[str, str] | None], ids=str)
def test_a_day_before_that_was_never_made_is_not_none(repo, run_job, kind):
    failed = run_job([totals(kind)], "2013-01-02", raise_on_error=False)
    assert not failed.success
    if kind == str | None:
        assert "total (2013-01-01) has no files: it was never made" in reason(failed, "total")[0]
    assert on_main(repo) == []


def test_a_day_before_that_was_rolled_back_is_not_none(repo, run_job):
    run_job([totals(str | None)], "2013-01-01")
    (record,) = repo.runs.list()
    repo.runs.rollback(record.key)
    assert not run_job([totals(str | None)], "2013-01-02", raise_on_error=False).success
    assert on_main(repo) == []
    for day in ("2013-01-01", "2013-01-02"):
        run_job([totals(str | None)], day)
    assert list(tree(repo.ref("main")).values()) == ["1", "11"]


def test_a_lost_value_is_refused_by_the_run_that_made_it(repo, run_job):
    @dg.asset(partitions_def=DAYS)
    def first() -> str:
        return "1"

    @dg.asset(partitions_def=DAYS, ins={"first": dg.AssetIn(partition_mapping=BEFORE)})
    def after(first: str) -> str:
        return first

    run_job([first], "2013-01-01")
    repo.revert("main", on="main")
    spec = dg.AssetSpec("first", partitions_def=DAYS)
    said, _ = reason(run_job([spec, after], "2013-01-02", raise_on_error=False), "after")
    assert (
        "first (2013-01-01) has no files: 'dagster graveler_job 2013-01-01', which made it, "
        "is not published: materialize it first" in said
    )


def test_a_day_before_may_be_missing_if_the_input_says_so(repo, run_job):
    run_job([totals(str | None, allow_missing_partitions=True)], "2013-01-02")
    assert list(tree(repo.ref("main")).values()) == ["1"]


def test_none_that_an_asset_returned_is_none(repo, run_job):
    @dg.asset(partitions_def=DAYS)
    def empty() -> str | None:
        return None

    @dg.asset(partitions_def=DAYS)
    def after(empty: str | None) -> str:
        return f"after {empty}"

    run_job([empty, after], "2013-01-02")
    run_job([empty], "2013-01-01")
    run_job([dg.AssetSpec("empty", partitions_def=DAYS), after], "2013-01-01")
    assert list(tree(repo.ref("main")).values()) == ["after None"] * 2
