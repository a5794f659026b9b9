"""The arguments of `graveler_definitions`."""

import dagster as dg
import pytest

from dagster_graveler import GravelerIOManager, graveler_definitions
from dagster_graveler.definitions import surround
from dagster_graveler.gates import as_checks, check_specs
from graveler import checks
from graveler.errors import InvalidInputError
from graveler.gates import Gate, gate

pytestmark = pytest.mark.filterwarnings("ignore::dagster.PreviewWarning")  # partitions of checks

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")
HOUR = "2013-01-01-05:00"


@gate
def nothing_forbidden(candidate):
    assert not any("forbidden" in entry.path for entry in candidate.list())


@dg.asset
def fine() -> bytes:
    return b"1"


@dg.asset
def forbidden() -> bytes:
    return b"1"


@pytest.fixture
def execute(resource):
    def run(assets, job="graveler_job", partition=None, **given):
        manager = GravelerIOManager(graveler=resource)
        defs = graveler_definitions(assets, resource, io_manager=manager, **given)
        with dg.DagsterInstance.ephemeral() as instance:
            return defs.resolve_job_def(job).execute_in_process(
                instance=instance, partition_key=partition, raise_on_error=False
            )

    return run


def paths(repo):
    return [entry.path for entry in repo.ref("main").entries()]


def test_the_check_of_a_gate_is_described_by_its_function():
    @gate
    def small(candidate):
        """Every file is small."""

    given = [small, nothing_forbidden, checks.row_count("fine/", name="rows")]
    specs = {
        spec.name: spec.description
        for spec in check_specs(as_checks(given), "fine", None, blocking=False)
    }
    assert specs == {"small": "Every file is small.", "nothing_forbidden": None, "rows": None}


def test_an_asset_may_need_its_own_earlier_partition(repo, execute):
    earlier = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)

    @dg.asset(partitions_def=hours, deps=[dg.AssetDep("cumulated", partition_mapping=earlier)])
    def cumulated() -> bytes:
        return b"1"

    given = {"gates": [nothing_forbidden], "partitions_def": hours}
    result = execute([cumulated], partition=HOUR, **given)
    assert result.success
    assert [check.check_name for check in result.get_asset_check_evaluations()] == [
        "nothing_forbidden"
    ]
    assert paths(repo) == ["cumulated/2013/01/01/05:00/data"]


@pytest.mark.parametrize(("assets", "on_main"), [([fine], ["fine/data"]), ([fine, forbidden], [])])
def test_one_gate_need_not_be_in_a_list(repo, execute, assets, on_main):
    assert execute(assets, gates=nothing_forbidden).success == bool(on_main)
    assert paths(repo) == on_main


def test_what_others_make_is_defined_and_not_published(repo, execute):
    @dg.asset(deps=["feed"])
    def made() -> bytes:
        return b"1"

    result = execute([dg.AssetSpec("feed"), made])
    assert result.success
    assert paths(repo) == ["made/data"]


def test_without_an_asset_of_the_run_there_is_nothing_to_publish(execute):
    with pytest.raises(InvalidInputError, match="at least one asset that a run makes"):
        execute([dg.AssetSpec("feed")])


@dg.asset(deps=[fine])
def after() -> bytes:
    return b"2"


def of_fine(candidate):
    return not any(candidate.list("fine/")) and "fine has files"


def checks_of(result):
    return {
        (check.asset_key.to_user_string(), check.check_name): check.passed
        for check in result.get_asset_check_evaluations()
    }


def test_a_gate_is_a_check_of_the_asset_whose_files_it_reads(repo, execute):
    gates = [
        Gate("there", lambda candidate: any(candidate.list("fine/data")), prefix="fine/data"),
        Gate("both", lambda candidate: True, prefix="fine/", also=("after/",)),
        Gate("all", lambda candidate: True),
        Gate("none", lambda candidate: True, prefix="elsewhere/"),
    ]
    result = execute([fine, after], gates=gates)
    assert result.success
    assert checks_of(result) == {
        ("fine", "there"): True,
        ("graveler_publish", "both"): True,
        ("graveler_publish", "all"): True,
        ("graveler_publish", "none"): True,
    }


def test_a_gate_of_an_asset_stops_what_is_downstream(repo, execute):
    result = execute([fine, after], gates=[Gate("of fine", of_fine, prefix="fine/")])
    assert not result.success
    assert checks_of(result) == {("fine", "of_fine"): False}
    made = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()}
    assert made == {"fine"}
    assert paths(repo) == []


def test_a_warning_of_a_gate_stops_nothing(repo, execute):
    gates = [Gate("of fine", of_fine, prefix="fine/", severity="warn")]
    result = execute([fine, after], gates=gates)
    assert result.success
    assert checks_of(result) == {("fine", "of_fine"): False}
    assert paths(repo) == ["after/data", "fine/data"]


def test_gates_are_checks_of_publishing_where_no_folder_is_known(repo, resource):
    defs = surround(
        [fine.key],
        {"graveler": resource, "io_manager": dg.fs_io_manager},
        gates=[Gate("of fine", of_fine, prefix="fine/")],
    )
    (key,) = defs.resolve_asset_graph().asset_check_keys
    assert (key.asset_key.to_user_string(), key.name) == ("graveler_publish", "of_fine")
