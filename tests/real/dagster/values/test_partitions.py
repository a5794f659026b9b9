"""Partitions where the clocks repeat an hour, ranges of partitions, and partitions without order."""

import dagster as dg
import pytest

from dagster_graveler import graveler_definitions
from graveler.errors import InvalidInputError
from tests.real.dagster.programs.looking import on_main, reason, tree

pytestmark = [pytest.mark.filterwarnings("ignore::dagster.BetaWarning")]

ONCE = dg.BackfillPolicy.single_run()


def parts_of_hours(day, zone, minutes):
    return dg.TimeWindowPartitionsDefinition(
        start=f"{day}-00:00",
        end=f"{day}-06:00",
        fmt="%Y-%m-%d-%H:%M",
        cron_schedule=f"*/{minutes} * * * *",
        timezone=zone,
    )


@pytest.mark.parametrize(
    ("zone", "minutes", "first", "offset", "folders"),
    [
        ("Europe/Berlin", 30, "2013-10-27-02:00", "+0100", ["10/27/00:00", "10/27/01:00"]),
        ("Europe/London", 30, "2013-10-27-01:30", "+0000", ["10/27/00:30", "10/27/01:30"]),
        ("America/New_York", 15, "2013-11-03-01:45", "-0500", ["11/03/05:45", "11/03/06:45"]),
        ("Australia/Lord_Howe", 15, "2013-04-07-01:45", "+1030", ["04/06/14:45", "04/06/15:15"]),
    ],
)
def test_a_repeated_partition_has_files_of_its_own(
    repo, run_job, zone, minutes, first, offset, folders
):
    partitions = parts_of_hours(first[:10], zone, minutes)

    @dg.asset(partitions_def=partitions)
    def raw(context: dg.AssetExecutionContext) -> str:
        return context.run.tags["dagster/partition"]

    @dg.asset(partitions_def=partitions)
    def copied(raw: str) -> str:
        return raw

    keys = [first, first + offset]
    for key in keys:
        run_job([raw, copied], key)
    assert tree(repo.ref("main")) == {
        f"{asset}/2013/{folder}/data": key
        for asset in ("copied", "raw")
        for folder, key in zip(folders, keys, strict=True)
    }


def test_a_neighbour_that_dagster_mistakes_is_refused(repo, run_job):
    half_hours = parts_of_hours("2013-10-27", "Europe/Berlin", 30)

    @dg.asset(partitions_def=half_hours)
    def raw() -> str:
        return "raw"

    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)

    @dg.asset(partitions_def=half_hours, ins={"raw": dg.AssetIn(partition_mapping=before)})
    def later(raw: str) -> str:
        return raw

    # Dagster mistakes the second of two equal local times, once a cache of it has the first
    keys = ("2013-10-27-02:00", "2013-10-27-02:00+0100")
    _, done = [run_job([raw, later], key, raise_on_error=False) for key in keys]
    error = done.failure_data_for_node("later").error.cause
    assert "takes partition '2013-10-27-02:00+0100' of this run for" in error.message
    assert on_main(repo) == []


LETTERS = dg.StaticPartitionsDefinition(["a", "b", "c"])


def test_a_range_that_ends_before_it_starts_is_refused(repo, run_job):
    @dg.asset(partitions_def=LETTERS, backfill_policy=ONCE)
    def letters(context: dg.AssetExecutionContext) -> dict[str, str]:
        return {key: key for key in context.partition_keys}

    @dg.asset(partitions_def=LETTERS, backfill_policy=ONCE)
    def own() -> None: ...

    with pytest.raises(InvalidInputError, match="'c' to 'a', and Dagster's list of 0"):
        run_job([letters], ends=("c", "a"))
    assert not run_job([own], ends=("c", "a"), raise_on_error=False).success
    assert on_main(repo) == []


GRID = dg.MultiPartitionsDefinition(
    {"day": dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-03"), "letter": LETTERS}
)


@pytest.mark.parametrize(
    ("partitions", "ends", "one"),
    [
        pytest.param(LETTERS, ("a", "c"), "b", id="static"),
        pytest.param(GRID, ("2013-01-01|a", "2013-01-02|b"), "2013-01-02|a", id="two dimensions"),
    ],
)
def test_a_partition_of_a_published_range_is_on_main(
    run_job, resource, instance, partitions, ends, one
):
    @dg.asset(partitions_def=partitions, backfill_policy=ONCE)
    def raw(context: dg.AssetExecutionContext):
        return {key: str(key) for key in context.partition_keys}

    @dg.asset(partitions_def=partitions, backfill_policy=ONCE)
    def upper(context: dg.AssetExecutionContext, raw: dict[str, str]):
        return {key: f"{raw[key]} again" for key in context.partition_keys}

    run_job([raw, upper], ends=ends)
    defs = graveler_definitions([raw, upper], resource)
    done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        partition_key=one,
        asset_selection=[dg.AssetKey("upper"), dg.AssetKey("graveler_publish")],
    )
    assert done.success


def test_a_partition_whose_input_is_not_on_main_stays_back(repo, run_job, resource, instance):
    @dg.asset(partitions_def=LETTERS)
    def raw() -> str:
        return "raw"

    @dg.asset(partitions_def=LETTERS, deps=[raw])
    def noted() -> str:
        return "noted"

    run_job([raw, noted], "a")
    defs = graveler_definitions([raw, noted], resource)
    done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        partition_key="b",
        asset_selection=[dg.AssetKey("noted"), dg.AssetKey("graveler_publish")],
        raise_on_error=False,
    )
    assert "raw (b) is not" in reason(done, "graveler_publish")[0]
    assert on_main(repo) == ["noted/a/data", "raw/a/data"]


def test_an_asset_without_partitions_is_that_of_the_last_run(repo, run_job):
    @dg.asset
    def shops(context: dg.AssetExecutionContext) -> str:
        return context.run.tags["dagster/partition"]

    @dg.asset(partitions_def=LETTERS)
    def sold(context: dg.AssetExecutionContext, shops: str) -> str:
        if context.partition_key == "a":
            run_job(assets, "b")
        return f"in {shops}"

    assets = [shops, sold]
    run_job(assets, "a")
    assert tree(repo.ref("main")) == {
        "shops/data": "a",
        "sold/a/data": "in a",
        "sold/b/data": "in b",
    }
