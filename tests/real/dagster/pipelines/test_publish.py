"""What the publishing asset shows about a publish."""

import re
from base64 import b64decode
from dataclasses import replace
from xml.etree import ElementTree as ET

import dagster as dg

from dagster_graveler import GravelerResource
from dagster_graveler.display import change_metadata, plot
from graveler_common.history import Folder, changes_of
from tests.real.dagster.programs.looking import shown

SVG = "{http://www.w3.org/2000/svg}"


def drawing(markdown):
    (encoded,) = re.findall(r"\(data:image/svg\+xml;base64,([\w+/=]+)\)", markdown)
    return ET.fromstring(b64decode(encoded))  # noqa: S314 - our own drawing


def texts(markdown):
    return [text.text for text in drawing(markdown).iter(f"{SVG}text")]


def test_publishing_shows_its_changes_as_a_table_and_a_plot(repo, make):
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

    found = shown(make(one, two), "publish")
    assert list(found)[:3] == ["graveler/plot", "graveler/diff", "graveler/changes"]
    assert [tuple(record.data.values()) for record in found["graveler/diff"].records] == [
        ("gone", "removed", 1, None),
        ("one/data", "changed", 3, 5),
        ("two/data", "added", None, 1),
    ]
    assert found["graveler/changes"] == "1 added, 1 changed, 1 removed"
    assert (found["graveler/files"], found["graveler/bytes"]) == (3, 6)
    assert texts(found["graveler/plot"])[3:] == ["/", "1", "one", "1", "two", "1"]
    assert found["graveler/address"] == f"grav://flights/{found['graveler/commit']}/"
    assert found["graveler/commit"] == repo.commit("main").id
    tree = repo.commit("main").metarange
    found = shown(make(one, two), "publish")  # changes of other runs are not shown
    assert found["graveler/commit"] == repo.commit("main").id
    assert repo.commit("main").metarange == tree
    assert found["graveler/files"] == 0
    assert "graveler/diff" not in found


def test_commits_and_dagster_link_to_one_another(repo, lake, make):
    @dg.asset(code_version="7")
    def one() -> str:
        return "1"

    linked = GravelerResource(
        lake=lake,
        repository="flights",
        ui="http://dagster:3000/",
        commit_url="https://lake/{repository}/commit/{commit}",
    )
    page = shown(make(one, graveler=linked), "publish")["graveler/page"]
    commit = repo.commit("main")
    assert page == f"https://lake/flights/commit/{commit.id}"
    run_id = commit.metadata["dagster.run_id"]
    assert commit.metadata["url"] == f"http://dagster:3000/runs/{run_id}"
    step = repo.commit(commit.parents[1])
    assert {
        "orchestrator": "dagster",
        "dagster.asset": "one",
        "dagster.step": "one",
        "code.version": "7",
        "graveler.try": "1",
        "url": f"http://dagster:3000/runs/{run_id}?focusedStepKeys=one",
    }.items() <= step.metadata.items()


def test_what_is_shown_of_many_changes_is_small(repo):
    with repo.run("many") as run:
        one = run.put("folder 00/0", b"1")
        run.link_many(
            replace(one, path=f"folder {number % 40:02}/{number}") for number in range(1, 400)
        )
    changes = changes_of(repo, repo.commit("main"))
    found = change_metadata(changes)
    assert found["graveler/changes"] == "400 added, 0 changed, 0 removed"
    assert len(found["graveler/diff"].records) == 50
    assert len(found["graveler/plot"].md_str) < 12_000
    assert "29 other folders" in texts(found["graveler/plot"].md_str)


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
    more = plot([Folder("a", 1, 0, 0)], more=True)
    assert "more that were not counted" in " ".join(texts(more))
