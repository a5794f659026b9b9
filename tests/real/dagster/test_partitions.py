"""Partitions where the clocks repeat an hour, ranges of partitions, and partitions without order."""

import dagster as dg
import pytest

from dagster_graveler import GravelerIOManager, graveler_definitions
from graveler.errors import InvalidInputError

pytestmark = [pytest.mark.filterwarnings("ignore::dagster.BetaWarning")]

ONCE = dg.BackfillPolicy.single_run()
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


def parts_of_hours(day, zone, minutes):
    return dg.TimeWindowPartitionsDefinition(
        start=f"{day}-00:00",
        end=f"{day}-06:00",
        fmt="%Y-%m-%d-%H:%M",
        cron_schedule=f"*/{minutes} * * * *",
        timezone=zone,
    )


HALF_HOURS = parts_of_hours("2013-10-27", "Europe/Berlin", 30)


@pytest.fixture
def run(resource, instance):
    def run(assets, partitions, raise_on_error=True, first=None, last=None, **given):
        defs = graveler_definitions(
            assets, resource, io_manager=GravelerIOManager(graveler=resource), **given
        )
        job = defs.resolve_job_def("graveler_job")
        if first:
            tags = dict(zip(RANGE, (first, last), strict=True))
            return job.execute_in_process(
                instance=instance, tags=tags, raise_on_error=raise_on_error
            )
        return [
            job.execute_in_process(
                instance=instance, partition_key=partition, raise_on_error=raise_on_error
            )
            for partition in partitions
        ]

    return run


def texts(repo, asset):
    view = repo.ref("main")
    return {
        entry.path[len(asset) + 1 : -5]: view.get(entry).decode()
        for entry in view.entries(f"{asset}/")
    }


@pytest.mark.parametrize(
    ("zone", "minutes", "first", "offset", "folders"),
    [
        ("Europe/Berlin", 30, "2013-10-27-02:00", "+0100", ["10/27/00:00", "10/27/01:00"]),
        ("Europe/Berlin", 15, "2013-10-27-02:15", "+0100", ["10/27/00:15", "10/27/01:15"]),
        ("Europe/London", 30, "2013-10-27-01:30", "+0000", ["10/27/00:30", "10/27/01:30"]),
        ("America/New_York", 15, "2013-11-03-01:45", "-0500", ["11/03/05:45", "11/03/06:45"]),
        ("America/St_Johns", 30, "2013-11-03-01:00", "-0330", ["11/03/03:30", "11/03/04:30"]),
        ("Australia/Lord_Howe", 15, "2013-04-07-01:45", "+1030", ["04/06/14:45", "04/06/15:15"]),
    ],
)
def test_a_repeated_partition_has_files_of_its_own(
    repo, run, zone, minutes, first, offset, folders
):
    partitions = parts_of_hours(first[:10], zone, minutes)

    @dg.asset(partitions_def=partitions)
    def raw(context: dg.AssetExecutionContext) -> str:
        return context.run.tags["dagster/partition"]

    @dg.asset(partitions_def=partitions)
    def copied(raw: str) -> str:
        return raw

    keys = [first, first + offset]
    run([raw, copied], keys)
    for asset in ("raw", "copied"):
        files = zip(folders, keys, strict=True)
        assert texts(repo, asset) == {f"2013/{folder}": key for folder, key in files}


def test_a_neighbour_that_dagster_mistakes_is_refused(repo, run):
    @dg.asset(partitions_def=HALF_HOURS)
    def raw() -> str:
        return "raw"

    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)

    @dg.asset(partitions_def=HALF_HOURS, ins={"raw": dg.AssetIn(partition_mapping=before)})
    def later(raw: str) -> str:
        return raw

    # Dagster mistakes the second of two equal local times, once a cache of it has the first
    keys = ["2013-10-27-02:00", "2013-10-27-02:00+0100"]
    _, done = run([raw, later], keys, raise_on_error=False)
    error = done.failure_data_for_node("later").error.cause
    assert "takes partition '2013-10-27-02:00+0100' of this run for" in error.message
    assert texts(repo, "raw") == {}


LETTERS = dg.StaticPartitionsDefinition(["a", "b", "c"])


@pytest.fixture
def letters():
    @dg.asset(partitions_def=LETTERS, backfill_policy=ONCE)
    def letters(context: dg.AssetExecutionContext) -> dict[str, str]:
        return {key: key for key in context.partition_keys}

    return letters


def test_a_range_that_ends_before_it_starts_is_refused(repo, run, letters):
    with pytest.raises(InvalidInputError, match="'c' to 'a', and Dagster's list of 0"):
        run([letters], (), first="c", last="a")
    assert texts(repo, "letters") == {}


def test_an_empty_range_is_red_without_an_io_manager_too(repo, run):
    @dg.asset(partitions_def=LETTERS, backfill_policy=ONCE)
    def own() -> None: ...

    done = run([own], (), first="c", last="a", raise_on_error=False)
    assert not done.success


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
    repo, run, resource, instance, partitions, ends, one
):
    @dg.asset(partitions_def=partitions, backfill_policy=ONCE)
    def raw(context: dg.AssetExecutionContext):
        return {key: str(key) for key in context.partition_keys}

    @dg.asset(partitions_def=partitions, backfill_policy=ONCE)
    def upper(context: dg.AssetExecutionContext, raw: dict[str, str]):
        return {key: f"{raw[key]} again" for key in context.partition_keys}

    assert run([raw, upper], (), first=ends[0], last=ends[1]).success
    defs = graveler_definitions([raw, upper], resource)
    done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        partition_key=one,
        asset_selection=[dg.AssetKey("upper"), dg.AssetKey("graveler_publish")],
    )
    assert done.success


def test_an_asset_without_partitions_is_that_of_the_last_run(repo, resource, instance):
    @dg.asset
    def shops(context: dg.AssetExecutionContext) -> str:
        return context.run.tags["dagster/partition"]

    @dg.asset(partitions_def=LETTERS)
    def sold(context: dg.AssetExecutionContext, shops: str) -> str:
        if context.partition_key == "a":
            assert job.execute_in_process(instance=instance, partition_key="b").success
        return f"in {shops}"

    defs = graveler_definitions([shops, sold], resource, partitions_def=LETTERS)
    job = defs.resolve_job_def("graveler_job")
    assert job.execute_in_process(instance=instance, partition_key="a").success
    assert texts(repo, "sold") == {"a": "in a", "b": "in b"}
    assert repo.ref("main").get("shops/data") == b"a"
