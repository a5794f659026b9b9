"""Assets of other runs: what Dagster shows as materialized, and main does not have."""

import dagster as dg
import pytest

from dagster_graveler import GravelerIOManager, GravelerResource, build_publish_asset

VERSION = [""]
HANDED: list[dict[str, dict[str, str]]] = []
ONCE = dg.RetryPolicy(max_retries=1)


@dg.asset
def raw() -> str:
    return VERSION[0]


@dg.asset(retry_policy=ONCE)
def report(raw: str) -> str:
    return f"of {raw}"


@dg.asset(ins={"raw": dg.AssetIn(metadata={"allow_unpublished": True})})
def preview(raw: str) -> str:
    return f"of {raw}"


@dg.asset(deps=[raw], retry_policy=ONCE)
def viewing(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
    graveler.view(context)


@dg.asset(deps=[raw], retry_policy=ONCE)
def stepping(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
    with graveler.step(context) as step:
        step.put("stepping/data", step.get("raw/data"))


@dg.asset(deps=[raw], retry_policy=ONCE)
def handing(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
    HANDED.append(graveler.extras(context)["graveler"]["inputs"])


@dg.asset(ins={"raw": dg.AssetIn(metadata={"allow_unpublished": True})})
def both(context: dg.AssetExecutionContext, raw: str, graveler: GravelerResource) -> str:
    graveler.view(context)
    return raw


@dg.op(ins={"raw": dg.In(dg.Nothing)}, retry_policy=ONCE)
def look(context: dg.OpExecutionContext, graveler: GravelerResource) -> str:
    return graveler.view(context).get("raw/data").decode()


@dg.graph_asset(ins={"raw": dg.AssetIn(dagster_type=dg.Nothing)})
def drawn(raw):
    return look(raw)


@pytest.fixture
def pick(resource, instance):
    """Run some assets of a code location, with a new version of the raw data."""
    defs = dg.Definitions(
        [
            *(raw, report, preview, viewing, stepping, handing, both, drawn),
            build_publish_asset("publish_raw", [raw]),
            build_publish_asset("publish_report", [report]),
            build_publish_asset("publish_preview", [preview]),
            build_publish_asset("publish_all", [raw, report]),
        ],
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
    )
    job = defs.resolve_implicit_global_asset_job_def()

    def run(*names, version="", **given):
        VERSION[0] = version
        return job.execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(name) for name in names],
            raise_on_error=False,
            **given,
        )

    run("raw", "publish_raw", version="1")
    return run


def failure(result, step):
    """Return why a step failed, and how often it was tried again."""
    error = result.failure_data_for_node(step).error
    return "".join(one.message for one in (error, error.cause) if one), (
        result.retry_attempts_for_node(step)
    )


def on_main(repo, asset):
    return repo.ref("main").get(f"{asset}/data").decode()


RAW = "dagster __ASSET_JOB(raw) "


def run_of(repo, result):
    return repo.runs.get(f"{RAW}{result.run_id}")


def test_what_an_unpublished_run_has_made_is_not_read_from_main(pick, repo):
    made = pick("raw", version="2")
    reason, retries = failure(pick("report", "publish_report"), "report")
    assert retries == 1
    assert run_of(repo, made).key in reason
    assert "is OPEN, not published" in reason
    repo.runs.park(run_of(repo, made).key, reason="a test")
    reason, retries = failure(pick("report", "publish_report"), "report")
    assert retries == 0
    assert "parked (a test): re-execute" in reason
    assert f"graveler run abandon {run_of(repo, made).key!r}" in reason
    assert not repo.ref("main").has_below("report/")
    assert run_of(repo, made).key in failure(pick("publish_all"), "publish_all")[0]
    assert on_main(repo, "raw") == "1"  # old files are not taken for new ones
    repo.runs.abandon(run_of(repo, made).key)
    assert pick("report", "publish_report").success
    assert on_main(repo, "report") == "of 1"


@pytest.mark.parametrize(
    ("asset", "step"),
    [
        ("viewing", "viewing"),
        ("stepping", "stepping"),
        ("handing", "handing"),
        ("drawn", "drawn.look"),
    ],
)
def test_what_an_open_run_has_made_is_not_read_by_hand(pick, repo, asset, step):
    first = next(iter(repo.runs.list())).key
    assert pick(asset).success
    if asset == "handing":  # a program gets the runs of what its asset needs
        assert HANDED[-1] == {"raw": {"": first}}
    made = pick("raw", version="2")
    reason, retries = failure(pick(asset), step)
    assert retries == 1
    assert run_of(repo, made).key in reason
    repo.runs.park(run_of(repo, made).key)
    assert failure(pick(asset), step)[1] == 0
    repo.runs.abandon(run_of(repo, made).key)
    assert pick(asset).success


def test_a_view_beside_an_argument_that_may_be_unpublished(pick):
    pick("raw", version="2")
    assert pick("both").success


def test_main_is_read_after_the_other_run_is_rolled_back(pick, repo):
    assert pick("raw", "publish_raw", version="2").success
    repo.runs.rollback(next(iter(repo.runs.list())).key)
    assert pick("report", "publish_report").success
    assert on_main(repo, "report") == "of 1"


def test_a_publish_after_the_fork_is_read(pick, repo, resource, instance):
    @dg.asset
    def early(context: dg.AssetExecutionContext, graveler: GravelerResource) -> str:
        with graveler.step(context, name="first") as step:
            step.put("first", b"1")
        assert pick("raw", "publish_raw", version="2").success
        return "written before"

    @dg.asset(deps=[early])
    def late(raw: str) -> str:
        return f"of {raw}"

    @dg.asset(deps=[early, raw])
    def looking(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
        graveler.view(context)

    manager = GravelerIOManager(graveler=resource)
    defs = dg.Definitions(
        [raw, early, late, looking], resources={"graveler": resource, "io_manager": manager}
    )
    done = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(name) for name in ("early", "late", "looking")],
        raise_on_error=False,
    )
    (made,) = done.asset_materializations_for_node("late")
    branch = repo.ref(made.metadata["graveler/branch"].value)
    assert branch.get("late/data") == b"of 2"
    assert "raw was published as" in failure(done, "looking")[0]


def test_a_publish_waits_for_what_it_has_read_elsewhere(pick, repo, monkeypatch):
    monkeypatch.setattr("dagster_graveler.publish._WAITS", 0)
    made = pick("raw", version="2")
    waiting = pick("preview", "publish_preview")
    assert not waiting.success
    assert not repo.ref("main").has_below("preview/")
    assert (
        f"on the branch of run {run_of(repo, made).key!r}" in failure(waiting, "publish_preview")[0]
    )
    repo.runs.park(run_of(repo, made).key)
    assert "that run is PARKED" in failure(pick("preview", "publish_preview"), "publish_preview")[0]


def test_what_was_read_elsewhere_is_published_after_it(pick, repo, resource, instance):
    made = pick("raw", version="2")
    assert pick("preview").success
    preview = next(iter(repo.runs.list()))
    resource.run(instance.get_run_by_id(made.run_id)).publish()
    resource.run(instance.get_run_by_id(preview.owner)).publish()
    assert (on_main(repo, "raw"), on_main(repo, "preview")) == ("2", "of 2")
    (read,) = preview.inputs
    assert repo.commit(read.commit).metadata["graveler.run"] == run_of(repo, made).key


def test_a_materialization_without_a_run_leaves_main(pick, repo, instance):
    instance.report_runless_asset_event(dg.AssetMaterialization("raw"))
    assert pick("report", "publish_report").success
    assert on_main(repo, "report") == "of 1"
