"""Assets that automation conditions request, and definitions in the catalog."""

import warnings
from datetime import UTC, datetime

import dagster as dg
import pandas as pd
import polars as pl
import pytest

from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    automation,
    graveler_definitions,
    graveler_eager,
)
from graveler.gates import gate
from tests.real.dagster.endings import ended

pytestmark = [  # Dagster itself uses its beta and preview features
    pytest.mark.filterwarnings("ignore:Parameter `include_sources`"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]

HOURS = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
EAGER = dg.AutomationCondition.eager()


@gate("not empty")
def not_empty(candidate):
    assert list(candidate.list())


@pytest.fixture
def define(resource):
    def definitions(assets, **given):
        manager = GravelerIOManager(graveler=resource)
        return graveler_definitions(assets, resource, io_manager=manager, **given)

    return definitions


def pipeline(condition):
    @dg.asset(automation_condition=condition, deps=["feed"])
    def made() -> bytes:
        return b"1"

    @dg.asset(automation_condition=condition)
    def doubled(made: bytes) -> bytes:
        return made * 2

    return [dg.AssetSpec("feed"), made, doubled]


def requested(defs, result):
    """Return the names of the assets that Dagster requests."""
    keys = defs.resolve_asset_graph().executable_asset_keys
    return {key.to_user_string() for key in keys if result.get_num_requested(key)}


def test_eager_assets_are_published_in_the_run_that_makes_them(repo, define, instance):
    defs = define(pipeline(EAGER))
    first = dg.evaluate_automation_conditions(defs, instance)
    instance.report_runless_asset_event(dg.AssetMaterialization("feed"))
    result = dg.evaluate_automation_conditions(defs, instance, cursor=first.cursor)
    names = requested(defs, result)
    assert names == {"made", "doubled", "graveler_publish"}

    job = defs.resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(name) for name in names]
    assert job.execute_in_process(instance=instance, asset_selection=keys).success
    assert [entry.path for entry in repo.ref("main").entries()] == ["doubled/data", "made/data"]
    again = dg.evaluate_automation_conditions(defs, instance, cursor=result.cursor)
    assert requested(defs, again) == set()


def test_assets_of_a_cron_condition_are_published_too(define, instance):
    @dg.asset(automation_condition=dg.AutomationCondition.on_cron("0 * * * *"))
    def made() -> bytes:
        return b"1"

    defs = define([made])
    before, after = (datetime(2013, 1, 1, hour, 59, tzinfo=UTC) for hour in (5, 6))
    first = dg.evaluate_automation_conditions(defs, instance, evaluation_time=before)
    assert requested(defs, first) == set()
    result = dg.evaluate_automation_conditions(
        defs, instance, evaluation_time=after, cursor=first.cursor
    )
    assert requested(defs, result) == {"made", "graveler_publish"}


def test_a_run_by_hand_requests_no_publish(define, instance):
    defs = define(pipeline(None))
    first = dg.evaluate_automation_conditions(defs, instance)
    instance.report_runless_asset_event(dg.AssetMaterialization("made"))
    result = dg.evaluate_automation_conditions(defs, instance, cursor=first.cursor)
    assert requested(defs, result) == set()


def test_the_condition_of_the_publishing_asset_may_be_ones_own(define):
    defs = define(pipeline(EAGER), automation_condition=None)
    node = defs.resolve_asset_graph().get(dg.AssetKey("graveler_publish"))
    assert node.automation_condition is None


def test_definitions_show_their_kind_and_their_code(define):
    defs = define(pipeline(None), gates=[not_empty])
    graph = defs.resolve_asset_graph()
    made, publish = (graph.get(dg.AssetKey(name)) for name in ("made", "graveler_publish"))
    assert made.kinds == publish.kinds == {"graveler"}
    references = [
        reference
        for node in (made, publish)
        for reference in node.metadata["dagster/code_references"].code_references
    ]
    assert [reference.file_path for reference in references] == [__file__] * 2
    assert references[1].label == "gate not empty"


@pytest.fixture
def shown(define):
    """Return kinds and metadata of an asset as the catalog shows its definition."""

    def node(asset, **given):
        return define([asset], **given).resolve_asset_graph().get(asset.key)

    return node


def test_a_table_is_in_the_catalog_before_it_is_made(resource, shown):
    @dg.asset(key=["mart", "delays"], partitions_def=HOURS)
    def delays() -> pd.DataFrame:
        return pd.DataFrame()

    @dg.asset
    def by_hour() -> dict[str, pl.LazyFrame]:
        return {}

    @dg.asset(metadata={"dagster/uri": "s3://else/where", "owner": "me"})
    def note() -> str:
        return ""

    node = shown(delays, partitions_def=HOURS)
    assert node.kinds == {"graveler", "pandas"}
    assert node.metadata["dagster/uri"] == "grav://flights/main/mart/delays/"
    assert node.metadata["dagster/table_name"] == "flights.main.mart.delays"
    assert shown(by_hour).kinds == {"graveler", "polars"}
    node = shown(note)
    assert node.metadata["dagster/uri"] == "s3://else/where"
    assert node.metadata["owner"] == "me"
    assert "dagster/table_name" not in node.metadata


@pytest.mark.parametrize(
    ("settings", "uri"),
    [
        ({"prefix": "out/"}, "grav://flights/main/out/made/"),
        ({"prefix": "in/", "layout": "{partition}/{asset}"}, "grav://flights/main/in/"),
        ({"layout": "{asset}/hour={partition}/x"}, "grav://flights/main/made/"),
        ({"prefix": dg.EnvVar("PREFIX")}, None),
    ],
    ids=str,
)
def test_the_address_of_an_asset_holds_its_partitions(resource, settings, uri):
    @dg.asset(partitions_def=HOURS, io_manager_key="frames")
    def made() -> bytes:
        return b""

    manager = GravelerIOManager(graveler=resource, **settings)
    defs = graveler_definitions(
        [made], resource, resources={"frames": manager}, partitions_def=HOURS
    )
    assert defs.resolve_asset_graph().get(made.key).metadata.get("dagster/uri") == uri


def test_assets_without_a_table_show_no_address(define):
    @dg.asset(deps=["feed"])
    def by_itself() -> None: ...

    graph = define([dg.AssetSpec("feed"), by_itself]).resolve_asset_graph()
    assert "dagster/uri" not in graph.get(by_itself.key).metadata
    assert graph.get(dg.AssetKey("feed")).kinds == set()
    publish = graph.get(dg.AssetKey("graveler_publish"))
    assert publish.metadata["dagster/uri"] == "grav://flights/main/"


def test_three_kinds_of_an_asset_are_left_as_they_are(define):
    kinds = {"python", "pandas", "csv"}

    @dg.asset(kinds=kinds)
    def made() -> bytes:
        return b"1"

    assert define([made]).resolve_asset_graph().get(made.key).kinds == kinds


@pytest.fixture
def two(resource):
    """Return a pipeline that makes and publishes an asset, and one that follows eagerly."""

    @dg.asset(partitions_def=HOURS)
    def raw() -> bytes:
        return b"1"

    @dg.asset(partitions_def=HOURS, automation_condition=graveler_eager())
    def report(raw: bytes) -> bytes:
        return raw * 2

    return dg.Definitions.merge(
        graveler_definitions([raw], resource, name="raw"),
        graveler_definitions([report], resource, name="report"),
    )


def latest(partition):
    """Return the time at which the hour of a partition is the latest one."""
    return HOURS.time_window_for_partition_key(partition).end


@pytest.fixture
def evaluate(two, instance):
    """Evaluate the conditions of the two pipelines, at the hour 05:00."""

    def evaluate(cursor=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            return dg.evaluate_automation_conditions(
                two, instance, cursor=cursor, evaluation_time=latest("2013-01-01-05:00")
            )

    return evaluate


def test_an_asset_follows_a_publish_once(repo, two, instance, evaluate):
    hour = "2013-01-01-05:00"
    job = two.resolve_implicit_global_asset_job_def()

    def make(*names):
        keys = [dg.AssetKey(name) for name in names]
        return job.execute_in_process(instance=instance, asset_selection=keys, partition_key=hour)

    first = evaluate()
    make("raw")
    unpublished = evaluate(first.cursor)
    assert requested(two, unpublished) == set()
    make("raw", "raw_publish")
    published = evaluate(unpublished.cursor)
    assert requested(two, published) == {"report", "report_publish"}
    assert make("report", "report_publish").success
    after = evaluate(published.cursor)
    assert requested(two, after) == set()
    assert requested(two, evaluate(after.cursor)) == set()
    assert repo.ref("main").get("report/2013/01/01/05:00/data") == b"11"


def test_the_publish_says_of_every_asset_that_main_has_it(two, instance, repo):
    job = two.resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(name) for name in ("raw", "raw_publish")]
    given = {"asset_selection": keys, "partition_key": "2013-01-01-05:00"}
    assert job.execute_in_process(instance=instance, **given).success
    (record,) = instance.fetch_observations(dg.AssetKey("raw"), limit=5).records
    assert record.partition_key == "2013-01-01-05:00"
    assert (
        record.asset_observation.metadata["graveler/published_as"].value == repo.commit("main").id
    )
    again = job.execute_in_process(instance=instance, **given)
    (made,) = again.asset_materializations_for_node("raw_publish")
    assert made.metadata["graveler/changes"].value == "none: the target had all of it"


def publish_and_fail(defs, instance, monkeypatch, then=lambda: None):
    """Run the pipeline `raw`, whose publish fails when main has moved; return the id of the run."""

    def fail(*_):
        then()
        raise ConnectionError("lost")

    keys = [dg.AssetKey(name) for name in ("raw", "raw_publish")]
    with monkeypatch.context() as patched:
        patched.setattr("dagster_graveler.publish._check_judged", fail)
        done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=keys,
            partition_key="2013-01-01-05:00",
            raise_on_error=False,
        )
    assert not done.success
    return done.run_id


def test_a_publish_whose_step_failed_is_shown_once(two, instance, repo, monkeypatch, evaluate):
    first = evaluate()
    run_id = publish_and_fail(two, instance, monkeypatch)
    assert repo.ref("main").exists("raw/2013/01/01/05:00/data")
    for _ in range(2):
        ended(two, instance, run_id, name="raw")
        (record,) = instance.fetch_observations(dg.AssetKey("raw"), limit=5).records
        assert record.partition_key == "2013-01-01-05:00"
        metadata = record.asset_observation.metadata
        assert metadata["graveler/published_as"].value == repo.commit("main").id
    followed = evaluate(first.cursor)
    assert requested(two, followed) == {"report", "report_publish"}
    assert requested(two, evaluate(followed.cursor)) == set()


def test_a_publish_that_main_has_lost_is_not_shown(two, instance, repo, monkeypatch):
    repo.protection.remove("main")
    run_id = publish_and_fail(two, instance, monkeypatch, lambda: repo.undo("main"))
    ended(two, instance, run_id, name="raw")
    assert not instance.fetch_observations(dg.AssetKey("raw"), limit=5).records


def test_a_sensor_evaluates_conditions_that_wait_for_publishes(two):
    (sensor,) = (
        sensor
        for sensor in two.sensors
        if isinstance(sensor, dg.AutomationConditionSensorDefinition)
    )
    assert sensor.name == "report_automation"


def test_more_publishes_than_a_page_are_followed(resource, instance, monkeypatch):
    monkeypatch.setattr(automation, "_PAGE", 2)
    published = dg.AutomationCondition.any_deps_match(automation.PublishedCondition())

    @dg.asset(partitions_def=HOURS)
    def raw() -> bytes:
        return b"1"

    @dg.asset(partitions_def=HOURS, automation_condition=published)
    def report(raw: bytes) -> bytes:
        return raw * 2

    def evaluate(cursor=None):
        return dg.evaluate_automation_conditions(
            [raw, report],
            instance,
            cursor=cursor,
            evaluation_time=latest("2013-01-01-08:00"),
        )

    first = evaluate()
    hours = [f"2013-01-01-{hour:02}:00" for hour in range(5)]
    for hour in hours:
        instance.report_runless_asset_event(
            dg.AssetObservation("raw", partition=hour, metadata={"graveler/published_as": "c"})
        )
    assert set(evaluate(first.cursor).get_requested_partitions(report.key)) == set(hours)


FOLLOWING = {
    "eager": EAGER,
    "eager, renamed": EAGER.with_label("ours"),
    "on_cron": dg.AutomationCondition.on_cron("0 * * * *"),
    "on_missing": dg.AutomationCondition.on_missing(),
    "any_deps_updated": dg.AutomationCondition.any_deps_updated(),
}


def followed(condition):
    """Return an asset, and one with a condition that depends on it."""

    @dg.asset
    def raw() -> bytes:
        return b"1"

    @dg.asset(automation_condition=condition, deps=[raw])
    def report() -> bytes:
        return b"2"

    return raw, report


@pytest.mark.parametrize("condition", FOLLOWING)
def test_each_condition_on_dependencies_is_warned_about(resource, condition):
    raw, report = followed(FOLLOWING[condition])
    graveler_definitions([raw], resource, name="raw")
    with pytest.warns(UserWarning, match="asset report follows the materializations of .*'raw'"):
        graveler_definitions([report], resource, name="report")


@pytest.mark.parametrize(
    "condition", [graveler_eager(), dg.AutomationCondition.cron_tick_passed("0 * * * *")]
)
def test_a_condition_that_follows_publishes_is_not_warned_about(resource, condition):
    raw, report = followed(condition)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", dg.BetaWarning)
        graveler_definitions([raw], resource, name="raw")
        graveler_definitions([report], resource, name="report")


@pytest.mark.parametrize("first", ["the follower", "the followed"])
def test_a_condition_across_pipelines_is_warned_about(resource, first):
    raw, report = followed(EAGER)
    pipelines = [("raw", raw), ("report", report)]
    if first == "the follower":
        pipelines.reverse()
    graveler_definitions([pipelines[0][1]], resource, name=pipelines[0][0])
    with pytest.warns(UserWarning, match="asset report follows the materializations of .*'raw'"):
        graveler_definitions([pipelines[1][1]], resource, name=pipelines[1][0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graveler_definitions([raw, report], GravelerResource(lake="x", repository="flights"))
