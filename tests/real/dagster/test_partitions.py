"""Partitions where the clocks repeat an hour, ranges of partitions, and partitions without order."""

import dagster as dg
import pytest

from dagster_graveler import GravelerIOManager, graveler_definitions
from graveler.errors import InvalidInputError

pytestmark = [pytest.mark.filterwarnings("ignore::dagster.BetaWarning")]

ONCE = dg.BackfillPolicy.single_run()
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
HALF_HOURS = dg.TimeWindowPartitionsDefinition(
    start="2013-10-27-00:00",
    end="2013-10-27-06:00",
    fmt="%Y-%m-%d-%H:%M",
    cron_schedule="*/30 * * * *",
    timezone="Europe/Berlin",
)


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


def test_a_repeated_half_hour_has_files_of_its_own(repo, run):
    @dg.asset(partitions_def=HALF_HOURS)
    def raw(context: dg.AssetExecutionContext) -> str:
        return context.run.tags["dagster/partition"]

    @dg.asset(partitions_def=HALF_HOURS)
    def copied(raw: str) -> str:
        return raw

    run([raw, copied], ["2013-10-27-02:00", "2013-10-27-02:00+0100"])
    for asset in ("raw", "copied"):
        assert texts(repo, asset) == {
            "2013/10/27/00:00": "2013-10-27-02:00",
            "2013/10/27/01:00": "2013-10-27-02:00+0100",
        }


def test_a_neighbour_that_dagster_mistakes_is_refused(repo, run):
    @dg.asset(partitions_def=HALF_HOURS)
    def raw() -> str:
        return "raw"

    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)

    @dg.asset(partitions_def=HALF_HOURS, ins={"raw": dg.AssetIn(partition_mapping=before)})
    def later(raw: str) -> str:
        return raw

    (done,) = run([raw, later], ["2013-10-27-02:00+0100"], raise_on_error=False)
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
