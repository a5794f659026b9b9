"""What the publishing asset shows about a publish."""

import re
from base64 import b64decode
from dataclasses import replace
from xml.etree import ElementTree as ET

import dagster as dg
import pytest

from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    build_publish_asset,
    graveler_gates,
)
from dagster_graveler.display import change_metadata, plot
from graveler.errors import InvalidInputError
from graveler.gates import gate
from graveler_common.history import Folder, changes_of

SVG = "{http://www.w3.org/2000/svg}"


def drawing(markdown):
    (encoded,) = re.findall(r"\(data:image/svg\+xml;base64,([\w+/=]+)\)", markdown)
    return ET.fromstring(b64decode(encoded))  # noqa: S314 - our own drawing


def texts(markdown):
    return [text.text for text in drawing(markdown).iter(f"{SVG}text")]


@pytest.fixture
def publish(lake, instance):
    def execute(assets, **settings):
        resource = GravelerResource(lake=lake, repository="flights", **settings)
        result = dg.materialize(
            [*assets, build_publish_asset("publish", assets)],
            resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
            instance=instance,
        )
        (made,) = result.asset_materializations_for_node("publish")
        return made

    return execute


def test_publishing_shows_its_changes_as_a_table_and_a_plot(repo, publish):
    with repo.run("before") as run:
        run.put("one/data", b"old")
        run.put("gone", b"1")

    @dg.asset
    def one() -> str:
        return "newer"

    @dg.asset
    def two(context: dg.AssetExecutionContext, graveler: GravelerResource) -> str:
        with graveler.step(context) as step:
            step.delete("gone")
        return "2"

    shown = {name: value.value for name, value in publish([one, two]).metadata.items()}
    assert list(shown)[:3] == ["graveler/plot", "graveler/diff", "graveler/changes"]
    assert [record.data for record in shown["graveler/diff"].records] == [
        {"path": "gone", "what": "removed", "before": 1, "after": None},
        {"path": "one/data", "what": "changed", "before": 3, "after": 5},
        {"path": "two/data", "what": "added", "before": None, "after": 1},
    ]
    assert shown["graveler/changes"] == "1 added, 1 changed, 1 removed"
    assert (shown["graveler/files"], shown["graveler/bytes"]) == (3, 6)
    assert texts(shown["graveler/plot"])[3:] == ["/", "1", "one", "1", "two", "1"]
    assert shown["graveler/address"] == f"grav://flights/{shown['graveler/commit']}/"
    assert shown["graveler/commit"] == repo.commit("main").id


def test_a_run_that_changed_nothing_shows_no_other_runs_changes(repo, publish):
    @dg.asset
    def one() -> str:
        return "same"

    publish([one])
    before = repo.commit("main")
    made = publish([one])
    assert made.metadata["graveler/commit"].value == repo.commit("main").id
    assert repo.commit("main").metarange == before.metarange
    assert made.metadata["graveler/files"].value == 0
    assert "graveler/diff" not in made.metadata


def test_commits_and_dagster_link_to_one_another(repo, publish):
    @dg.asset(code_version="7")
    def one() -> str:
        return "1"

    made = publish(
        [one], ui="http://dagster:3000/", commit_url="https://lake/{repository}/commit/{commit}"
    )
    commit = repo.commit("main")
    assert made.metadata["graveler/page"].value == f"https://lake/flights/commit/{commit.id}"
    run_id = commit.metadata["dagster.run_id"]
    assert commit.metadata["url"] == f"http://dagster:3000/runs/{run_id}"
    step = repo.commit(commit.parents[1])
    output = {
        "orchestrator": "dagster",
        "dagster.asset": "one",
        "dagster.step": "one",
        "code.version": "7",
        "graveler.try": "1",
        "url": f"http://dagster:3000/runs/{run_id}?focusedStepKeys=one",
    }
    assert output.items() <= step.metadata.items()


def test_what_is_shown_of_many_changes_is_small(repo):
    with repo.run("many") as run:
        one = run.put("folder 00/0", b"1")
        run.link_many(
            replace(one, path=f"folder {number % 40:02}/{number}") for number in range(1, 400)
        )
    changes = changes_of(repo, repo.commit("main"))
    shown = change_metadata(changes)
    assert shown["graveler/changes"] == "400 added, 0 changed, 0 removed"
    assert len(shown["graveler/diff"].records) == 50
    assert len(shown["graveler/plot"].md_str) < 12_000
    assert "29 other folders" in texts(shown["graveler/plot"].md_str)


def test_folders_of_any_name_are_drawn():
    folders = ("<script>&'\"", "é" * 200, "\x1b[31m\x07red")
    drawn = plot(
        [Folder(folders[0], 1, 0, 0), Folder(folders[1], 0, 1, 3), Folder(folders[2], 0, 0, 0)]
    )
    names = texts(drawn)
    assert "<script>&'\"" in names
    assert f"…{'é' * 43}" in names
    assert "\ufffd[31m\ufffdred" in names
    widths = [rect.get("width") for rect in drawing(drawn).iter(f"{SVG}rect")]
    assert widths[4:] == ["75.0", "75.0", "225.0"]


def test_the_drawing_shows_that_not_all_was_counted():
    assert "more that were not counted" in " ".join(texts(plot([Folder("a", 1, 0, 0)], more=True)))


def test_a_check_shows_what_its_gate_has_reported(repo, resource, instance):
    @gate("few files", prefix="one/")
    def few(candidate):
        candidate.report(files=len(list(candidate.changes("one/"))), kinds=["text"])

    @dg.asset
    def one() -> str:
        return "1"

    result = dg.materialize(
        [one, graveler_gates([few], asset="one"), build_publish_asset("publish", [one])],
        resources={"graveler": resource, "io_manager": GravelerIOManager(graveler=resource)},
        instance=instance,
    )
    (check,) = result.get_asset_check_evaluations()
    assert check.check_name == "few_files"
    assert check.passed
    assert check.metadata["graveler/facts/files"].value == 1
    assert check.metadata["graveler/facts/kinds"].value == ["text"]
    assert check.metadata["graveler/seconds"].value == pytest.approx(0, abs=600)


def test_gates_that_would_be_one_check_are_refused():
    with pytest.raises(InvalidInputError, match="'a b' and 'a-b' would be one check"):
        graveler_gates([gate("a b")(print), gate("a-b")(print)], asset="one")
