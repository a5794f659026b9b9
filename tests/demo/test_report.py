from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.demo.history import read_history
from graveler.demo.report import render_report, summarize, write_report
from graveler.demo.story import DemoResult, HourResult
from graveler.errors import GateFailedError
from graveler.gates import Verdict
from graveler.lake.factory import connect
from graveler.reads.changes import range_reuse
from graveler.testing.clock import FakeClock, SequenceIds

HOSTILE = 'DL <script>alert("1")</script> & co'
VOID = {"br", "meta"}


class Page(HTMLParser):
    """Reads a page and checks that its elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.elements = []
        self.words = []
        self.feed(text)
        self.close()

    def handle_starttag(self, name, attrs):
        self.elements.append((name, dict(attrs)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.words.append(data)

    def of_class(self, kind):
        return [name for name, attrs in self.elements if attrs.get("class") == kind]

    @property
    def text(self):
        return " ".join(self.words)


class Pipeline:
    """Publishes hours into a lake in memory, without Spark."""

    def __init__(self, repository):
        self.repository = repository
        self.runs = []

    def hour(self, number, *, damaged=False):
        hour = datetime(2013, 1, 1, 20, tzinfo=UTC) + timedelta(hours=number)
        key = f"flights {number} <&>"
        bad = Verdict("no dups", False, "error", HOSTILE)
        try:
            with self.repository.run(key, gates=[lambda _: HOSTILE if damaged else None]) as run:
                with run.step("ingest") as step:
                    step.put(f"input/{hour:%Y/%m/%d/%H}/a.csv", f"{number} {damaged}".encode())
                with run.step("transform") as step:
                    step.put(f"output/{hour:%Y/%m/%d/%H}/a", f"{number} {damaged}".encode())
        except GateFailedError:
            assert damaged
        record = self.repository.runs.get(key)
        self.runs.append(
            HourResult(
                hour=hour,
                key=key,
                state=record.state,
                attempt=record.attempt,
                commit=self.repository.commit("main").id,
                rows=0 if damaged else 1234 + number,
                ranges_written=0 if damaged else 2,
                ranges_reused=0 if damaged else 7,
                seconds=0.5,
                verdicts=(Verdict("schema", True, "error"), bad)
                if damaged
                else (Verdict("schema", True, "error"), Verdict("sky", False, "warn", "no sky")),
                damaged=damaged,
            )
        )

    def result(self):
        return DemoResult(
            lake=Path("lakes/lake <1>"),
            repository="flights",
            landing=Path("landing"),
            runs=tuple(self.runs),
            flights=4321,
            expected=4321,
            seconds=12.5,
            spark_seconds=3.25,
        )


@pytest.fixture
def pipeline(tmp_path):
    config = LakeConfig(
        location=str(tmp_path),
        kv_uri="mem://",
        storage_uri=f"mem://{tmp_path.name}",
        cache_folder=tmp_path / "cache",
    )
    with connect(config, clock=FakeClock(), ids=SequenceIds()) as lake:
        yield Pipeline(lake.create_repository("flights", splitting=Splitting(raggedness=2)))


@pytest.fixture
def day(pipeline):
    """Five hours. The third hour arrives damaged, and is repaired at the end."""
    for number in range(5):
        pipeline.hour(number, damaged=number == 2)
    pipeline.hour(2)
    return pipeline


def page_of(pipeline):
    return Page(render_report(pipeline.repository, pipeline.result()))


def test_the_report_is_well_formed_and_needs_nothing_else(day):
    text = render_report(day.repository, day.result())
    page = Page(text)
    assert page.open == []
    assert text.startswith("<!doctype html>")
    names = {name for name, _ in page.elements}
    assert not names & {"script", "link", "img", "iframe", "image", "use", "a"}
    for loading in ("http", "url(", "@import", "src="):
        assert loading not in text
    assert "prefers-color-scheme: dark" in text


def test_no_text_of_the_lake_becomes_markup(day):
    text = render_report(day.repository, day.result())
    assert "<script" not in text
    assert "<&>" not in text
    page = Page(text)
    assert HOSTILE in page.text
    assert any("flights 2 <&>" in attrs.get("title", "") for _, attrs in page.elements)
    assert "graveler -C lakes/lake <1> log main --first-parent" in page.text


def test_the_page_tells_each_attempt_and_the_stopped_hour(day):
    page = page_of(day)
    words = (
        *("4,321", "hours published", "hour stopped by its gates", "12.5 s", "1,238", "no sky"),
        "22:00 arrived damaged and was stopped",
        "2 later hours were published meanwhile",
        "attempt 2 replaced the files of the first one",
    )
    assert [word for word in words if word not in page.text] == []
    counts = {
        "tile": 7, "stopped": 1, "again": 1, "mark passed": 11, "mark refused": 2, "mark warned": 5,
        "stopped-card": 1, "main-dot": 5, "again-dot": 1, "stop-dot": 1, "lane again": 1, "lane": 4,
    }  # fmt: skip
    assert {kind: len(page.of_class(kind)) for kind in counts} == counts
    dots = sum(len(page.of_class(f"{kind}-dot")) for kind in ("main", "again", "stop", "run"))
    assert dots == len(list(day.repository.log("main")))


def test_without_a_stopped_hour_there_is_no_word_of_one(pipeline):
    pipeline.hour(0)
    page = page_of(pipeline)
    assert page.open == []
    for kind in ("stopped-card", "stopped", "stop-dot", "lane parked", "again-dot"):
        assert page.of_class(kind) == []
    assert "January 1, 2013" in page.text


def test_a_run_that_waits_to_be_published_is_drawn_to_the_end(pipeline):
    pipeline.hour(0)
    pipeline.hour(1, damaged=True)
    page = page_of(pipeline)
    assert page.of_class("stop-dot") == ["i"]
    assert page.of_class("lane parked") == ["td"]
    assert "It waits on its branch for a newer attempt." in page.text


def test_a_run_takes_the_columns_from_its_fork_to_its_merge(day):
    history = read_history(day.repository)
    columns = [(lane.first, lane.last) for lane in history.lanes]
    assert columns == [(1, 1), (2, 2), (3, 5), (3, 3), (4, 4)]
    (stopped,) = [lane for lane in history.lanes if len(lane.commits) > 2]
    assert (stopped.first, stopped.last) == (3, 5)


def test_the_ranges_drawn_are_those_of_the_trees(day):
    history = read_history(day.repository)
    page = page_of(day)
    shares = sum(size > 0 for _, size in history.sizes)
    assert page.of_class("new").count("td") == len(history.ranges)
    assert len(page.of_class("share")) == shares
    for place, commit in enumerate(history.main):
        there = [life for life in history.ranges if life.first <= place <= life.last]
        brought = [life for life in there if life.first == place]
        if commit.parents:
            before = history.main[place - 1].id
            expected = len(brought), len(there) - len(brought)
            again = replace(commit, parents=(before,))
            assert range_reuse(day.repository.stores, again) == expected
        assert history.sizes[place] == (
            sum(life.info.size for life in brought),
            sum(life.info.size for life in there),
        )


def test_the_file_is_written_and_written_again(day, tmp_path):
    file = tmp_path / "report.html"
    assert write_report(day.repository, day.result(), file) == file
    first = file.read_text("utf-8")
    write_report(day.repository, day.result(), file)
    assert file.read_text("utf-8") == first


def test_the_summary_ends_with_the_command_that_shows_the_page(day, tmp_path, capsys):
    summarize(day.result(), tmp_path / "report.html", shown_as="lakes")
    assert capsys.readouterr().out.splitlines()[-1].endswith("-C 'lakes/lake <1>' ui --open")
