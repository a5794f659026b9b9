"""The arguments of `graveler_definitions`: gates as checks, and assets of others."""

import dagster as dg
import pytest

from dagster_graveler import GravelerIOManager, build_publish_asset, graveler_gates
from dagster_graveler.definitions import surround
from dagster_graveler.gates import as_checks, check_specs
from graveler import checks
from graveler.errors import InvalidInputError
from graveler.gates import Gate, gate
from tests.real.dagster.programs.looking import checks_of, on_main

pytestmark = pytest.mark.filterwarnings("ignore::dagster.PreviewWarning")  # partitions of checks

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00")


@gate
def nothing_forbidden(candidate):
    assert not any("forbidden" in entry.path for entry in candidate.list())


@dg.asset
def fine() -> bytes:
    return b"1"


@dg.asset(deps=[fine])
def after() -> bytes:
    return b"2"


@dg.asset
def forbidden() -> bytes:
    return b"1"


def of_fine(candidate):
    return not any(candidate.list("fine/")) and "fine has files"


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
    with pytest.raises(InvalidInputError, match="'a b' and 'a-b' would be one check"):
        graveler_gates([gate("a b")(print), gate("a-b")(print)], asset="one")


@pytest.mark.parametrize(("assets", "found"), [([fine], ["fine/data"]), ([fine, forbidden], [])])
def test_one_gate_need_not_be_in_a_list(repo, run_job, assets, found):
    assert run_job(assets, gates=nothing_forbidden, raise_on_error=False).success == bool(found)
    assert on_main(repo) == found


def test_what_others_make_is_defined_and_not_published(repo, run_job):
    @dg.asset(deps=["feed"])
    def made() -> bytes:
        return b"1"

    run_job([dg.AssetSpec("feed"), made])
    assert on_main(repo) == ["made/data"]
    with pytest.raises(InvalidInputError, match="at least one asset that a run makes"):
        run_job([dg.AssetSpec("feed")])


def test_a_gate_is_a_check_of_the_asset_whose_files_it_reads(run_job, resource):
    gates = [
        Gate("there", lambda candidate: any(candidate.list("fine/data")), prefix="fine/data"),
        Gate("both", lambda candidate: True, prefix="fine/", also=("after/",)),
        Gate("all", lambda candidate: True),
        Gate("none", lambda candidate: True, prefix="elsewhere/"),
    ]
    assert checks_of(run_job([fine, after], gates=gates)) == {
        ("fine", "there"): True,
        **{("graveler_publish", name): True for name in ("both", "all", "none")},
    }
    resources = {"graveler": resource, "io_manager": dg.fs_io_manager}  # no folder is known
    defs = surround([fine.key], resources, gates=[Gate("of fine", of_fine, prefix="fine/")])
    (key,) = defs.resolve_asset_graph().asset_check_keys
    assert (key.asset_key.to_user_string(), key.name) == ("graveler_publish", "of_fine")


@pytest.mark.parametrize(
    ("severity", "found"), [("error", []), ("warn", ["after/data", "fine/data"])]
)
def test_a_gate_of_an_asset_stops_what_is_downstream(repo, run_job, severity, found):
    gates = [Gate("of fine", of_fine, prefix="fine/", severity=severity)]
    result = run_job([fine, after], gates=gates, raise_on_error=False)
    assert result.success == bool(found)
    assert checks_of(result) == {("fine", "of_fine"): False}
    made = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()}
    assert made == ({"fine", "after", "graveler_publish"} if found else {"fine"})
    assert on_main(repo) == found


def test_the_gates_wait_for_every_otherwise_unawaited_asset(repo, run_job):
    def named(name, *deps):
        @dg.asset(name=name, deps=deps)
        def asset() -> str:
            return "value"

        return asset

    every = ["a/data", "b/data", "m/data", "z/data"]

    @gate
    def complete(candidate):
        return [entry.path for entry in candidate.list()] == every

    run_job([named("z", "b"), named("m"), named("a"), named("b", "a")], gates=[complete])
    assert on_main(repo) == every


def test_a_check_shows_what_its_gate_has_reported(resource, instance):
    @gate("few files", prefix="fine/")
    def few(candidate):
        candidate.report(files=len(list(candidate.changes("fine/"))), kinds=["text"])

    result = dg.materialize(
        [fine, graveler_gates([few], asset="fine"), build_publish_asset("publish", [fine])],
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
        instance=instance,
    )
    (check,) = result.get_asset_check_evaluations()
    assert (check.check_name, check.passed) == ("few_files", True)
    assert check.metadata["graveler/facts/files"].value == 1
    assert check.metadata["graveler/facts/kinds"].value == ["text"]
    assert check.metadata["graveler/seconds"].value == pytest.approx(0, abs=600)
