"""Commit sensors: each commit starts one run, or reports partitions, once and in order."""

from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

from dagster_graveler import build_commit_sensor
from graveler.base.names import hour_text
from graveler.errors import ExpiredError
from graveler.ingest import HourKind

pytestmark = pytest.mark.filterwarnings(
    "ignore:Parameter `backfill_policy`"
)  # a beta feature of Dagster

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
days = dg.DailyPartitionsDefinition("2013-01-01")
weeks = dg.WeeklyPartitionsDefinition("2013-01-06")
parts = dg.StaticPartitionsDefinition(["x", "y"])
customers = dg.DynamicPartitionsDefinition(name="customers")


def job_of(name, definition=None):
    @dg.asset(name=name, partitions_def=definition)
    def asset() -> None: ...

    return asset, dg.define_asset_job(f"{name}_job", [asset])


REPORT, HOURLY, OF_PART, OF_CUSTOMER = JOBS = [
    job_of("report"),
    job_of("hourly", hours),
    job_of("of_part", parts),
    job_of("of_customer", customers),
]


@pytest.fixture
def look(resource, instance):
    """Evaluate a sensor as the daemon does, with its own cursor or a given one."""
    cursors: dict[str, str | None] = {}

    def evaluate(sensor, cursor=None):
        assets, jobs = zip(*JOBS, strict=True)
        repository = dg.Definitions(assets, jobs=jobs, sensors=[sensor]).get_repository_def()
        context = dg.build_sensor_context(
            instance=instance,
            cursor=cursor or cursors.get(sensor.name),
            resources={"graveler": resource},
            repository_def=repository,
            sensor_name=sensor.name,
        )
        with context:
            output = sensor.evaluate_tick(context)
        cursors[sensor.name] = output.cursor
        return output

    return evaluate


def publish(repo, path, **metadata):
    with repo.run(path, metadata=metadata) as run:
        run.put(path, path.encode())
    return repo.commit("main").id


def keys(output):
    return [request.run_key for request in output.run_requests or ()]


def partitions(output):
    asked = [request.partition_key for request in output.run_requests or ()]
    return asked or [event.partition for event in output.asset_events]


def hourly(*numbers):
    return [f"2013-01-01-{number:02}:00" for number in numbers]


def test_each_commit_starts_one_run_in_branch_order(repo, look):
    sensor = build_commit_sensor("news", job=REPORT[1])
    publish(repo, "before")
    assert keys(look(sensor)) == []  # commits before the first look do not count
    commits = [publish(repo, name) for name in "abc"]
    output = look(sensor)
    assert keys(output) == commits
    assert output.run_requests[0].tags["graveler/commit"] == commits[0]
    assert keys(look(sensor)) == []
    assert keys(look(sensor, cursor="0" * 64)) == []  # no commit any more: it is given up
    assert keys(look(sensor)) == []


def test_a_sensor_may_begin_in_the_past_and_reads_in_portions(repo, look):
    start = repo.commit("main").id
    commits = [publish(repo, name) for name in "abcde"]
    sensor = build_commit_sensor("news", job=REPORT[1], since=start, limit=2)
    found = [keys(look(sensor)) for _ in range(4)]
    assert found == [commits[:2], commits[2:4], commits[4:], []]


def test_commits_elsewhere_and_of_the_job_itself_start_no_run(repo, look):
    sensor = build_commit_sensor("news", job=REPORT[1], prefix="input/")
    look(sensor)
    publish(repo, "output/1")
    publish(repo, "input/mine", **{"dagster.job": "report_job"})
    theirs = publish(repo, "input/theirs", **{"dagster.job": "another_job"})
    publish(repo, "output/2")
    assert keys(look(sensor)) == [theirs]


def test_after_a_reset_the_sensor_resumes_at_the_common_commit(repo, look):
    repo.protection.remove("main")
    sensor = build_commit_sensor("news", job=REPORT[1])
    look(sensor)
    kept = publish(repo, "kept")
    publish(repo, "undone")
    assert len(keys(look(sensor))) == 2
    repo.undo("main")
    assert repo.commit("main").id == kept
    assert keys(look(sensor)) == []
    after = publish(repo, "after")
    assert keys(look(sensor)) == [after]


@pytest.fixture
def sensor_of_hours(look):
    """Return a sensor for hours that has looked once."""

    def make(**given):
        made = build_commit_sensor("news", job=HOURLY[1], partitions_def=hours, **given)
        look(made)
        return made

    return make


def test_the_partition_is_that_of_the_run_that_made_the_commit(repo, look, sensor_of_hours):
    sensor = sensor_of_hours()
    publish(repo, "a", **{"dagster.partition": "2013-01-01-05:00"})
    publish(repo, "b", **{"dagster.partition": "2013-01-01-06:00...2013-01-01-08:00"})
    publish(repo, "c", hour="2013-01-01T09:00Z")
    publish(repo, "d")  # without an hour
    output = look(sensor)
    assert partitions(output) == hourly(5, 6, 7, 8, 9)
    assert len(set(keys(output))) == 5
    assert partitions(look(sensor)) == []


def test_without_a_partition_the_hours_of_paths_count(repo, look, sensor_of_hours):
    sensor = sensor_of_hours(prefix="input/")
    with repo.run("ingested") as run:
        run.put("input/2013/01/01/05:00/a", b"1")
        run.put("input/2013/01/01/07:00/late", b"1")
        run.put("input/2013/13/01/07:00/no month", b"1")
        run.put("input/1999/01/01/07:00/before all partitions", b"1")
        run.put("output/2013/01/01/09:00/elsewhere", b"1")
    assert partitions(look(sensor)) == hourly(5, 7)


def ingested(repo, hour, *numbers, deleted=(), **given):
    ingestion = repo.ingestion()
    for number in numbers:
        ingestion.branch.put(f"input/2013/01/01/{number:02}:00/a", b"%d" % hour)
    for number in deleted:
        ingestion.branch.delete(f"input/2013/01/01/{number:02}:00/a")
    return ingestion.tick(f"2013-01-01T{hour:02}:00Z", **given)


def test_early_and_late_hours_count_and_deleted_ones_if_asked(repo, look):
    sensors = [
        build_commit_sensor("news", job=HOURLY[1], partitions_def=hours),
        build_commit_sensor("all", job=HOURLY[1], partitions_def=hours, hours=list(HourKind)),
    ]
    first = repo.commit("main").id
    ingested(repo, 5, 3, 5, 6, metadata={"dagster.partition": "2013-01-01-05:00"})
    ingested(repo, 7, 7, deleted=[3])
    found = [partitions(look(each, cursor=first)) for each in sensors]
    assert found == [hourly(3, 5, 6, 7), hourly(3, 5, 6, 3, 7)]


def test_the_hours_of_one_commit_are_reported_in_parts(repo, look, sensor_of_hours):
    sensor = sensor_of_hours(most=2)
    ingested(repo, 5, 1, 2, 3, 4, 5)
    ingested(repo, 6, 6)
    found = [partitions(look(sensor)) for _ in range(4)]
    assert found == [hourly(1, 2), hourly(3, 4), hourly(5, 6), []]


def test_hours_that_were_collected_are_an_error(repo, look, sensor_of_hours):
    sensor = sensor_of_hours()
    for hour in (5, 6, 7):
        ingested(repo, hour, hour)
    repo.gc.keep(count=1)
    for _ in range(2):
        repo.gc.run(grace=timedelta(0), window=timedelta(0))
    with pytest.raises(ExpiredError):
        look(sensor)


WINTER = dg.DailyPartitionsDefinition("2013-01-01", timezone="America/New_York")
NIGHT = dg.HourlyPartitionsDefinition("2013-01-03-22:00", end_date="2013-01-04-01:00")
MAPPED: dict[str, tuple[Any, Any, list[str]]] = {
    "hours to days": (
        (hours, "2013-01-02-05:00", "2013-01-04-00:00"),
        days,
        ["2013-01-02", "2013-01-03", "2013-01-04"],
    ),
    "an hour to its day": ((hours, "2013-01-02-05:00"), days, ["2013-01-02"]),
    "a week to its days": (
        (weeks, "2013-01-06"),
        days,
        [f"2013-01-{day:02}" for day in range(6, 13)],
    ),
    "as far as they go": (
        (days, "2013-01-02", "2013-01-04"),
        NIGHT,
        ["2013-01-03-22:00", "2013-01-03-23:00", "2013-01-04-00:00"],
    ),
    "elsewhere": ((days, "2013-01-02"), WINTER, ["2013-01-01", "2013-01-02"]),
    "before they begin": (
        (days, "2013-01-02"),
        dg.DailyPartitionsDefinition("2013-01-03"),
        [],
    ),
    "no times": ((days, "2013-01-02"), parts, []),
    "the same": ((days, "2013-01-02", "2013-01-03"), days, ["2013-01-02", "2013-01-03"]),
}


@pytest.mark.parametrize("case", MAPPED)
def test_partitions_are_mapped_to_those_of_the_sensor(repo, look, case):
    (definition, *ends), of_sensor, expected = MAPPED[case]
    sensor = build_commit_sensor("news", asset="lake_main", partitions_def=of_sensor)
    look(sensor)
    start = definition.time_window_for_partition_key(ends[0]).start
    end = definition.time_window_for_partition_key(ends[-1]).end
    window = {"dagster.window": f"{hour_text(start)}/{hour_text(end)}"}
    publish(repo, "a", **{"dagster.partition": "...".join(ends)}, **window)
    assert partitions(look(sensor)) == expected
    assert partitions(look(sensor)) == []


def test_what_takes_a_run_back_is_about_all_of_its_partitions(repo, look, make):
    @dg.asset(partitions_def=hours, backfill_policy=dg.BackfillPolicy.single_run())
    def made(context: dg.AssetExecutionContext):
        return dict.fromkeys(context.partition_keys, b"1")

    sensor = build_commit_sensor("news", asset="lake_main", partitions_def=days)
    look(sensor)
    make(made, ends=("2013-01-02-05:00", "2013-01-04-00:00"))
    (record,) = repo.runs.list()
    for _ in range(2):
        assert partitions(look(sensor)) == ["2013-01-02", "2013-01-03", "2013-01-04"]
        repo.runs.rollback(record.key)


@pytest.mark.parametrize(
    "given",
    [{"job": OF_PART[1], "partitions_def": parts}, {"asset": "main", "partitions_def": customers}],
    ids=["static", "dynamic"],
)
def test_a_partition_that_is_no_time_counts_by_its_name(repo, look, instance, given):
    instance.add_dynamic_partitions("customers", ["x", "y"])
    sensor = build_commit_sensor("news", **given)
    look(sensor)
    publish(repo, "a", **{"dagster.partition": "y"})
    publish(repo, "b", **{"dagster.partition": "unknown"})
    publish(repo, "2013/01/01/05:00/c")
    assert partitions(look(sensor)) == ["y"]


def test_a_branch_can_be_an_asset_with_an_event_for_each_commit(repo, look):
    sensor = build_commit_sensor("news", asset="lake_main", partitions_def=hours)
    look(sensor)
    commit = publish(repo, "a", hour="2013-01-01T05:00Z")
    (event,) = look(sensor).asset_events
    assert event.partition == "2013-01-01-05:00"
    assert event.tags["dagster/data_version"] == commit
    assert event.metadata["graveler/commit"].value == commit
    assert event.metadata["graveler/run"].value == "a"
