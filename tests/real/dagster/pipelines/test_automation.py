"""Assets that automation conditions request, and definitions in the catalog."""

import warnings

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
from tests.real.dagster.programs.endings import ended
from tests.real.dagster.programs.looking import on_main

pytestmark = [  # Dagster itself uses its beta and preview features
    pytest.mark.filterwarnings("ignore:Parameter `include_sources`"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
]

HOURS = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
EAGER = dg.AutomationCondition.eager()


def shown(resource, *assets, manager=None, **given):
    """Return the nodes of assets as the catalog shows their definitions, and of the publish."""
    manager = GravelerIOManager(graveler=resource, **(manager or {}))
    given = {"io_manager": manager, **given}
    graph = graveler_definitions(assets, resource, **given).resolve_asset_graph()
    return [graph.get(asset.key) for asset in assets] + [graph.get(dg.AssetKey("graveler_publish"))]


def requested(defs, result):
    """Return the names of the assets that Dagster requests."""
    keys = defs.resolve_asset_graph().executable_asset_keys
    return {key.to_user_string() for key in keys if result.get_num_requested(key)}


def test_eager_assets_are_published_in_the_run_that_makes_them(repo, resource, instance):
    @dg.asset(automation_condition=EAGER, deps=["feed"])
    def made() -> bytes:
        return b"1"

    @dg.asset(automation_condition=EAGER)
    def doubled(made: bytes) -> bytes:
        return made * 2

    feed = dg.AssetSpec("feed")
    defs = graveler_definitions([feed, made, doubled], resource)
    first = dg.evaluate_automation_conditions(defs, instance)
    instance.report_runless_asset_event(dg.AssetMaterialization("feed"))
    result = dg.evaluate_automation_conditions(defs, instance, cursor=first.cursor)
    names = requested(defs, result)
    assert names == {"made", "doubled", "graveler_publish"}
    job = defs.resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(name) for name in names]
    assert job.execute_in_process(instance=instance, asset_selection=keys).success
    assert on_main(repo) == ["doubled/data", "made/data"]
    again = dg.evaluate_automation_conditions(defs, instance, cursor=result.cursor)
    assert requested(defs, again) == set()
    *_, publish = shown(resource, made, automation_condition=None)
    assert publish.automation_condition is None


def test_definitions_show_their_kind_and_their_code(resource):
    @gate("not empty")
    def not_empty(candidate):
        assert list(candidate.list())

    @dg.asset(deps=["feed"])
    def made() -> None: ...

    @dg.asset(kinds={"python", "pandas", "csv"})
    def of_three_kinds() -> bytes:
        return b"1"

    of_feed, of_made, three, publish = shown(
        resource, dg.AssetSpec("feed"), made, of_three_kinds, gates=[not_empty]
    )
    assert of_made.kinds == publish.kinds == {"graveler"}
    assert of_feed.kinds == set()
    assert three.kinds == {"python", "pandas", "csv"}
    references = [
        reference
        for node in (of_made, publish)
        for reference in node.metadata["dagster/code_references"].code_references
    ]
    assert [reference.file_path for reference in references] == [__file__] * 2
    assert references[1].label == "gate not empty"
    assert "dagster/uri" not in of_made.metadata
    assert publish.metadata["dagster/uri"] == "grav://flights/main/"


def test_a_table_is_in_the_catalog_before_it_is_made(resource):
    @dg.asset(key=["mart", "delays"])
    def delays() -> pd.DataFrame:
        return pd.DataFrame()

    @dg.asset
    def by_hour() -> dict[str, pl.LazyFrame]:
        return {}

    @dg.asset(metadata={"dagster/uri": "s3://else/where", "owner": "me"})
    def note() -> str:
        return ""

    frame, frames, text, _ = shown(resource, delays, by_hour, note)
    assert frame.kinds == {"graveler", "pandas"}
    assert frame.metadata["dagster/uri"] == "grav://flights/main/mart/delays/"
    assert frame.metadata["dagster/table_name"] == "flights.main.mart.delays"
    assert frames.kinds == {"graveler", "polars"}
    assert text.metadata["dagster/uri"] == "s3://else/where"
    assert text.metadata["owner"] == "me"
    assert "dagster/table_name" not in text.metadata


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
    @dg.asset(partitions_def=HOURS)
    def made() -> bytes:
        return b""

    node, _ = shown(resource, made, manager=settings)
    assert node.metadata.get("dagster/uri") == uri


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
    (record,) = instance.fetch_observations(dg.AssetKey("raw"), limit=5).records
    assert record.partition_key == hour
    published_as = record.asset_observation.metadata["graveler/published_as"].value
    assert published_as == repo.commit("main").id
    make("report", "report_publish")
    after = evaluate(published.cursor)
    assert requested(two, after) == set()
    assert requested(two, evaluate(after.cursor)) == set()
    assert repo.ref("main").get("report/2013/01/01/05:00/data") == b"11"
    (publish,) = make("raw", "raw_publish").asset_materializations_for_node("raw_publish")
    assert publish.metadata["graveler/changes"].value == "none: the target had all of it"
    assert "report_automation" in {sensor.name for sensor in two.sensors}


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
    "any_deps_updated": dg.AutomationCondition.any_deps_updated(),
    "graveler_eager": graveler_eager(),
    "cron_tick_passed": dg.AutomationCondition.cron_tick_passed("0 * * * *"),
}


@pytest.mark.parametrize("is_first", [False, True], ids=["the follower last", "first"])
@pytest.mark.parametrize("condition", FOLLOWING)
def test_a_condition_across_pipelines_is_warned_about(resource, condition, is_first):
    @dg.asset
    def raw() -> bytes:
        return b"1"

    @dg.asset(automation_condition=FOLLOWING[condition], deps=[raw])
    def report() -> bytes:
        return b"2"

    def warned(graveler, *pipelines):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("ignore", dg.BetaWarning)
            for number, assets in enumerate(pipelines):
                graveler_definitions(assets, graveler, name=f"pipeline_{number}")
        return [str(one.message) for one in seen]

    pipelines = ([report], [raw]) if is_first else ([raw], [report])
    told = warned(resource, *pipelines)
    assert len(told) == (condition not in ("graveler_eager", "cron_tick_passed"))
    assert all("asset report follows the materializations of pipeline" in one for one in told)
    assert not warned(GravelerResource(lake="x", repository="flights"), [raw, report])
