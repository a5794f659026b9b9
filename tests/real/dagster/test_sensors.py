"""Sensors of commits, of ended runs, and of runs that never end."""

import threading
from datetime import timedelta

import dagster as dg
import pytest

from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    build_commit_sensor,
    build_lifecycle_sensors,
    build_publish_asset,
    build_reaper_sensor,
)
from dagster_graveler.resource import _shared_run
from graveler.config import load_config
from graveler.errors import ExpiredError
from graveler.gates import gate
from graveler.ingest import HourKind
from graveler.lake.factory import connect
from graveler.lake.shared import lend_lake
from graveler.testing.clock import FakeClock
from tests.real.dagster.endings import ended

pytestmark = pytest.mark.filterwarnings(
    "ignore:Parameter `backfill_policy`"
)  # a beta feature of Dagster

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
parts = dg.StaticPartitionsDefinition(["x", "y"])


@dg.asset
def report() -> None: ...


@dg.asset(partitions_def=hours)
def hourly() -> None: ...


@dg.asset(partitions_def=parts)
def of_part() -> None: ...


REPORT = dg.define_asset_job("report_job", [report])
HOURLY = dg.define_asset_job("hourly_job", [hourly])
OF_PART = dg.define_asset_job("part_job", [of_part])


@pytest.fixture
def look(resource, instance):
    """Evaluate a sensor as the daemon does, with its own cursor or a given one."""
    cursors: dict[str, str | None] = {}

    def evaluate(sensor, cursor=None):
        repository = dg.Definitions(
            [report, hourly, of_part], jobs=[REPORT, HOURLY, OF_PART], sensors=[sensor]
        ).get_repository_def()
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


def test_each_commit_starts_one_run_in_branch_order(repo, look):
    sensor = build_commit_sensor("news", job=REPORT)
    publish(repo, "before")
    assert keys(look(sensor)) == []  # commits before the first look do not count
    commits = [publish(repo, name) for name in "abc"]
    output = look(sensor)
    assert keys(output) == commits
    assert output.run_requests[0].tags["graveler/commit"] == commits[0]
    assert keys(look(sensor)) == []
    assert keys(look(sensor)) == []


def test_a_sensor_may_begin_in_the_past_and_reads_in_portions(repo, look):
    start = repo.commit("main").id
    commits = [publish(repo, name) for name in "abcde"]
    sensor = build_commit_sensor("news", job=REPORT, since=start, limit=2)
    assert [keys(look(sensor)) for _ in range(4)] == [
        commits[:2],
        commits[2:4],
        commits[4:],
        [],
    ]


def test_only_commits_below_the_prefix_start_a_run(repo, look):
    sensor = build_commit_sensor("news", job=REPORT, prefix="input/")
    look(sensor)
    publish(repo, "output/1")
    wanted = publish(repo, "input/1")
    publish(repo, "output/2")
    assert keys(look(sensor)) == [wanted]


def test_after_a_reset_the_sensor_resumes_at_the_common_commit(repo, look):
    repo.protection.remove("main")
    sensor = build_commit_sensor("news", job=REPORT)
    look(sensor)
    kept = publish(repo, "kept")
    publish(repo, "undone")
    assert len(keys(look(sensor))) == 2
    repo.undo("main")
    assert repo.commit("main").id == kept
    assert keys(look(sensor)) == []
    after = publish(repo, "after")
    assert keys(look(sensor)) == [after]


def test_a_cursor_that_is_no_commit_any_more_is_given_up(repo, look):
    sensor = build_commit_sensor("news", job=REPORT)
    publish(repo, "a")
    assert keys(look(sensor, cursor="0" * 64)) == []
    after = publish(repo, "b")
    assert keys(look(sensor)) == [after]


def test_what_the_job_itself_has_published_does_not_start_it(repo, look):
    sensor = build_commit_sensor("news", job=REPORT)
    look(sensor)
    publish(repo, "mine", **{"dagster.job": "report_job"})
    theirs = publish(repo, "theirs", **{"dagster.job": "another_job"})
    assert keys(look(sensor)) == [theirs]


def partitions(output):
    return [request.partition_key for request in output.run_requests or ()]


def test_the_partition_is_that_of_the_run_that_made_the_commit(repo, look):
    sensor = build_commit_sensor("news", job=HOURLY, partitions_def=hours)
    look(sensor)
    publish(repo, "a", **{"dagster.partition": "2013-01-01-05:00"})
    publish(repo, "b", **{"dagster.partition": "2013-01-01-06:00...2013-01-01-08:00"})
    publish(repo, "c", hour="2013-01-01T09:00Z")
    publish(repo, "d")  # without an hour
    output = look(sensor)
    assert partitions(output) == [f"2013-01-01-{hour:02}:00" for hour in (5, 6, 7, 8, 9)]
    assert len(set(keys(output))) == 5
    assert partitions(look(sensor)) == []


def test_an_ingestion_commit_covers_late_and_waiting_hours(repo, look):
    sensor = build_commit_sensor("news", job=HOURLY, partitions_def=hours)
    look(sensor)
    ingestion = repo.ingestion()
    for hour in (5, 7, 3):
        ingestion.branch.put(f"input/2013/01/01/{hour:02}:00/a", b"1")
    ingestion.tick("2013-01-01T07:00Z", metadata={"dagster.partition": "2013-01-01-07:00"})
    assert partitions(look(sensor)) == [f"2013-01-01-{hour:02}:00" for hour in (3, 5, 7)]


def ingested(repo, hour, *hours, deleted=()):
    ingestion = repo.ingestion()
    for number in hours:
        ingestion.branch.put(f"input/2013/01/01/{number:02}:00/a", b"%d" % hour)
    for number in deleted:
        ingestion.branch.delete(f"input/2013/01/01/{number:02}:00/a")
    return ingestion.tick(f"2013-01-01T{hour:02}:00Z")


def test_early_hours_count_and_deleted_ones_if_asked(repo, look):
    sensors = [
        build_commit_sensor("news", job=HOURLY, partitions_def=hours),
        build_commit_sensor("all", job=HOURLY, partitions_def=hours, hours=list(HourKind)),
    ]
    first = repo.commit("main").id
    ingested(repo, 5, 3, 5, 6)
    ingested(repo, 7, 7, deleted=[3])
    found = [partitions(look(each, cursor=first)) for each in sensors]
    assert found == [
        [f"2013-01-01-{hour:02}:00" for hour in (3, 5, 6, 7)],
        [f"2013-01-01-{hour:02}:00" for hour in (3, 5, 6, 3, 7)],
    ]


def test_the_hours_of_one_commit_are_reported_in_parts(repo, look):
    sensor = build_commit_sensor("news", job=HOURLY, partitions_def=hours, most=2)
    look(sensor)
    ingested(repo, 5, 1, 2, 3, 4, 5)
    ingested(repo, 6, 6)
    parts = [[int(key[-5:-3]) for key in partitions(look(sensor))] for _ in range(4)]
    assert parts == [[1, 2], [3, 4], [5, 6], []]


def test_hours_that_were_collected_are_an_error(repo, look):
    sensor = build_commit_sensor("news", job=HOURLY, partitions_def=hours)
    look(sensor)
    for hour in (5, 6, 7):
        ingested(repo, hour, hour)
    repo.gc.keep(count=1)
    repo.gc.run(grace=timedelta(0), window=timedelta(0))
    repo.gc.run(grace=timedelta(0), window=timedelta(0))
    with pytest.raises(ExpiredError):
        look(sensor)


def test_without_a_partition_the_hours_of_paths_count(repo, look):
    sensor = build_commit_sensor("news", job=HOURLY, partitions_def=hours, prefix="input/")
    look(sensor)
    with repo.run("ingested") as run:
        run.put("input/2013/01/01/05:00/a", b"1")
        run.put("input/2013/01/01/07:00/late", b"1")
        run.put("input/2013/13/01/07:00/no month", b"1")
        run.put("input/1999/01/01/07:00/before all partitions", b"1")
        run.put("output/2013/01/01/09:00/elsewhere", b"1")
    assert partitions(look(sensor)) == ["2013-01-01-05:00", "2013-01-01-07:00"]


def test_a_partition_that_is_no_time_counts_by_its_name(repo, look):
    sensor = build_commit_sensor("news", job=OF_PART, partitions_def=parts)
    look(sensor)
    publish(repo, "a", **{"dagster.partition": "y"})
    publish(repo, "b", **{"dagster.partition": "unknown"})
    publish(repo, "2013/01/01/05:00/c")
    assert partitions(look(sensor)) == ["y"]


def events(output):
    return [event.partition for event in output.asset_events]


days = dg.DailyPartitionsDefinition("2013-01-01")
weeks = dg.WeeklyPartitionsDefinition("2013-01-06")
ONCE = dg.BackfillPolicy.single_run()


@pytest.fixture
def publish_for(resource, instance):
    """Publish a Dagster run for a partition or a range of partitions."""

    def execute(definition, first, last=""):
        @dg.asset(partitions_def=definition, backfill_policy=ONCE)
        def made(context: dg.AssetExecutionContext):
            return dict.fromkeys(context.partition_keys, b"1")

        publishing = build_publish_asset(
            "publish", [made], partitions_def=definition, backfill_policy=ONCE
        )
        span = {
            "dagster/asset_partition_range_start": first,
            "dagster/asset_partition_range_end": last,
        }
        return dg.materialize(
            [made, publishing],
            instance=instance,
            resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
            **({"tags": span} if last else {"partition_key": first}),
        )

    return execute


@pytest.mark.parametrize(
    ("of_run", "span", "of_sensor", "expected"),
    [
        (
            hours,
            ("2013-01-02-05:00", "2013-01-04-00:00"),
            days,
            ["2013-01-02", "2013-01-03", "2013-01-04"],
        ),
        (hours, ("2013-01-02-05:00",), days, ["2013-01-02"]),
        (days, ("2013-01-02",), hours, [f"2013-01-02-{hour:02}:00" for hour in range(24)]),
        (weeks, ("2013-01-06",), days, [f"2013-01-{day:02}" for day in range(6, 13)]),
        (
            days,
            ("2013-01-02", "2013-01-04"),
            dg.HourlyPartitionsDefinition("2013-01-03-22:00", end_date="2013-01-04-01:00"),
            ["2013-01-03-22:00", "2013-01-03-23:00", "2013-01-04-00:00"],
        ),
        (
            days,
            ("2013-01-02",),
            dg.DailyPartitionsDefinition("2013-01-01", timezone="America/New_York"),
            ["2013-01-01", "2013-01-02"],
        ),
        (days, ("2013-01-02",), dg.DailyPartitionsDefinition("2013-01-03"), []),
        (days, ("2013-01-02",), parts, []),
        (days, ("2013-01-02", "2013-01-03"), days, ["2013-01-02", "2013-01-03"]),
    ],
    ids=[
        "hours to days",
        "an hour to its day",
        "a day to its hours",
        "a week to its days",
        "as far as they go",
        "elsewhere",
        "before they begin",
        "no times",
        "the same",
    ],
)
def test_partitions_are_mapped_to_those_of_the_sensor(
    look, publish_for, of_run, span, of_sensor, expected
):
    sensor = build_commit_sensor("news", asset="lake_main", partitions_def=of_sensor)
    look(sensor)
    assert publish_for(of_run, *span).success
    assert events(look(sensor)) == expected
    assert events(look(sensor)) == []


def test_what_takes_a_run_back_is_about_all_of_its_partitions(repo, look, publish_for):
    sensor = build_commit_sensor("news", asset="lake_main", partitions_def=days)
    publish_for(hours, "2013-01-02-05:00", "2013-01-04-00:00")
    look(sensor)
    (record,) = repo.runs.list()
    repo.runs.rollback(record.key)
    assert events(look(sensor)) == ["2013-01-02", "2013-01-03", "2013-01-04"]


def test_partitions_added_at_run_time_are_used(repo, look, instance):
    instance.add_dynamic_partitions("customers", ["acme", "umbrella"])
    customers = dg.DynamicPartitionsDefinition(name="customers")
    sensor = build_commit_sensor("news", asset="lake_main", partitions_def=customers)
    look(sensor)
    publish(repo, "a", **{"dagster.partition": "acme"})
    publish(repo, "b", **{"dagster.partition": "unknown"})
    assert events(look(sensor)) == ["acme"]


def test_a_job_for_such_partitions_is_started(repo, resource, tmp_path):
    customers = dg.DynamicPartitionsDefinition(name="customers")

    @dg.asset(partitions_def=customers)
    def of_customer() -> None: ...

    job = dg.define_asset_job("customer_job", [of_customer])
    sensor = build_commit_sensor(
        "news", job=job, partitions_def=customers, since=repo.commit("main").id
    )
    publish(repo, "a", **{"dagster.partition": "acme"})
    defs = dg.Definitions([of_customer], jobs=[job], sensors=[sensor])
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.add_dynamic_partitions("customers", ["acme"])
        with dg.SensorEvaluationContext(  # as the daemon makes it
            instance_ref=instance.get_ref(),
            last_tick_completion_time=None,
            last_run_key=None,
            cursor=None,
            repository_name=None,
            repository_def=defs.get_repository_def(),
            sensor_name=sensor.name,
            resources={"graveler": resource},
        ) as context:
            assert partitions(sensor.evaluate_tick(context)) == ["acme"]


def test_a_branch_can_be_an_asset_with_an_event_for_each_commit(repo, look):
    sensor = build_commit_sensor("news", asset="lake_main", partitions_def=hours)
    look(sensor)
    commit = publish(repo, "a", hour="2013-01-01T05:00Z")
    (event,) = look(sensor).asset_events
    assert event.partition == "2013-01-01-05:00"
    assert event.tags["dagster/data_version"] == commit
    assert event.metadata["graveler/commit"].value == commit
    assert event.metadata["graveler/run"].value == "a"


@gate
def no_secrets(candidate):
    assert not any("secret" in entry.path for entry in candidate.list()), "a secret"


@pytest.mark.parametrize(
    ("asset", "state", "on_main", "message"),
    [("plain", "PUBLISHED", ["plain/data"], "published"), ("secret", "PARKED", [], "a secret")],
)
def test_work_by_hand_is_published_behind_gates_if_wanted(
    repo, resource, instance, asset, state, on_main, message
):
    @dg.asset(name=asset)
    def made() -> str:
        return "1"

    defs = dg.Definitions(
        [made],
        sensors=build_lifecycle_sensors(publish_adhoc=True, gates=[no_secrets]),
        resources={"graveler": resource},
    )
    result = dg.materialize(
        [made],
        instance=instance,
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
    )
    assert message in ended(defs, instance, result.run_id)
    (record,) = repo.runs.list()
    assert record.state == state
    assert [entry.path for entry in repo.ref("main").entries()] == on_main


def test_a_failed_run_is_dropped_where_nothing_of_it_shall_stay(lake, repo, instance):
    resource = GravelerResource(lake=lake, repository="flights", on_failure="drop")

    @dg.asset
    def made() -> str:
        return "1"

    @dg.asset(deps=[made])
    def broken() -> None:
        raise ConnectionError("lost")

    defs = dg.Definitions(sensors=build_lifecycle_sensors(), resources={"graveler": resource})
    result = dg.materialize(
        [made, broken],
        instance=instance,
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
        raise_on_error=False,
    )
    assert "is REAPED" in ended(defs, instance, result.run_id)
    assert [branch.name for branch in repo.branches(hidden=True)] == ["main"]


def test_assets_picked_by_hand_do_not_publish_those_of_others(repo, instance, lake):
    resource = GravelerResource(lake=lake, repository="flights")

    @dg.asset
    def one() -> str:
        return "1"

    @dg.asset
    def two() -> str:
        return "2"

    publishing = build_publish_asset("publish", [two])
    defs = dg.Definitions(
        [one, two, publishing],
        sensors=build_lifecycle_sensors(),
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
    )
    by_hand = defs.resolve_implicit_global_asset_job_def()

    def pick(*names):
        return by_hand.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(name) for name in names],
            tags={"dagster/partition": "x"},  # normally this makes their keys equal
        )

    assert "is PARKED" in ended(defs, instance, pick("one").run_id)
    assert pick("two", "publish").success
    assert [entry.path for entry in repo.ref("main").entries()] == ["two/data"]


def test_the_reaper_parks_a_run_whose_machine_is_gone(repo, look, lake):
    run = repo.runs.open("dead")
    with run.step("written") as step:
        step.put("a", b"1")
    reaper = build_reaper_sensor()
    assert look(reaper).skip_message == "reaped 0 runs"
    clock = FakeClock(repo.stores.clock.now() + timedelta(hours=1))
    with connect(load_config(lake), clock=clock) as an_hour_later, lend_lake(an_hour_later):
        assert look(reaper).skip_message == "reaped 1 runs"
        assert look(reaper).skip_message == "reaped 0 runs"
    record = repo.runs.get("dead")
    assert record.state == "PARKED"
    assert "no sign of life" in record.reason
    assert [entry.path for entry in repo.ref(record.branch).entries()] == ["a"]
    assert list(repo.ref("main").entries()) == []


def lease_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("lease of")]


def open_and_wait(resource, instance):
    """Let a step of Dagster open its run; return the thread that renews the lease."""

    @dg.op
    def opens(context: dg.OpExecutionContext, graveler: GravelerResource) -> None:
        graveler.run(context)

    @dg.job(resource_defs={"graveler": resource})
    def job():
        opens()

    assert job.execute_in_process(instance=instance).success
    (renewals,) = lease_threads()
    return renewals


def test_a_lease_is_not_renewed_after_the_dagster_run(lake, repo, instance):
    short = GravelerResource(lake=lake, repository="flights", lease_seconds=0.3)
    open_and_wait(short, instance).join(10)
    assert lease_threads() == []
    (record,) = repo.runs.list()
    assert record.state == "OPEN"


def test_a_lease_is_not_renewed_if_dagster_gives_no_answer(
    repo, resource, instance, monkeypatch, caplog
):
    def lost(run_id):
        raise ConnectionError("no instance")

    run = repo.runs.open("long", lease=timedelta(seconds=0.3))
    monkeypatch.setattr(instance, "get_run_by_id", lost)
    _shared_run(run, instance, "none")
    (renewals,) = lease_threads()
    renewals.join(10)
    assert lease_threads() == []
    assert "cannot read from Dagster whether its run is over" in caplog.text


def test_steps_of_a_process_work_in_one_run_with_kept_inputs(repo, resource, instance):
    with repo.run("before") as run:
        run.put("table/data", b"1")

    @dg.asset
    def summary(context: dg.AssetExecutionContext, graveler: GravelerResource) -> str:
        return graveler.view(context).get("table/data").decode()

    result = dg.materialize(
        [summary],
        instance=instance,
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
    )
    (record,) = repo.runs.list("OPEN")
    assert record.owner == result.run_id
    assert {read.prefix for read in record.inputs} == {"table/"}
    assert {read.commit for read in record.inputs} == {repo.commit("main").id}
