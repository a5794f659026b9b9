"""The pages of runs, gates and ingestion over a day of a pipeline."""

import shlex
from datetime import datetime

import pytest

import graveler
from graveler.base.names import named_hour
from graveler.pages import Site, render
from graveler.testing.process import Process
from tests.harness.commands import invoke
from tests.harness.run_records import add_hours
from tests.pages.pipelines import DAY, day, ingest, run_of

ENDS = {
    "00": "published",
    "01": "published",
    "02": "rolled back",
    "03": "missing",
    "04": "refused",
    "05": "parked",
    "06": "open",
    "07": "abandoned",
    "08": "published",
}
LOOKS = [f"{DAY} {hour}:00" for hour in ("03", "04", "05")]


@pytest.fixture
def repo(lake):
    return lake.create_repository("flights")


@pytest.fixture
def page(lake, world):
    """Returns the page of a name as it is made, and as HTML."""
    site = Site(lake, clock=world.clock)

    def made(name, **parameters):
        found = site.answer(f"/flights/{name}", parameters)
        return found, render(found)

    return made


def hours(found):
    return {kind: count for kind, _, count in found.values["counts"]}


def looks(found):
    return [hour.title[:16] for hour in found.values["looks"][0]]


def keys(found):
    return [row["record"].key for row in found.values["found"]]


def test_the_calendar_has_the_end_of_each_hour(repo, page):
    day(repo)
    found, text = page("runs")
    assert hours(found) == {end: [*ENDS.values()].count(end) for end in ENDS.values()}
    for hour, end in ENDS.items():
        assert f"<title>{DAY} {hour}:00 {end}: " in text.replace("missing:", "missing: ")
    assert looks(found) == LOOKS


def test_an_hour_leads_to_its_run(repo, page):
    day(repo)
    found, text = page("runs")
    refused = next(hour for hour in found.values["looks"][0] if hour.kind == "refused")
    assert refused.href == f"/flights/run?key=hourly+{DAY}T04%3A00Z"
    assert f'href="{refused.href}"' in text


def test_an_hour_shows_the_run_that_needs_a_look(repo, page):
    day(repo)
    run_of(repo, "03", name="weather")
    run_of(repo, "04", name="weather")
    found, _ = page("runs")
    assert hours(found)["refused"] == 1
    assert looks(found) == LOOKS[1:]  # 03:00 is no longer missing
    assert len(keys(page("runs", hour=f"{DAY}T04:00Z")[0])) == 2


def test_one_pipeline_has_its_own_calendar(repo, page):
    day(repo)
    run_of(repo, "03", name="weather")
    assert looks(page("runs", text="HOURLY")[0]) == LOOKS
    assert hours(page("runs", text="weather")[0]) == {"published": 1}


def test_hours_are_known_by_folders_too(repo, page):
    main = repo.branch("main")
    for hour in ("00:00", "02:00", "03:00"):
        main.put(f"input/2025/12/31/{hour}/part.csv", b"1")
    for odd in ("odd", "31/odd", "31/07:0", "31/24:00", "30/20250101"):
        main.put(f"input/2025/12/{odd}/part.csv", b"1")
    main.put("other/x", b"1")
    main.commit("files")
    found, _ = page("runs")
    assert (found.values["folders"], looks(found)) == (["input/"], ["2025-12-31 01:00"])
    assert hours(page("runs", folder="other")[0]) == {}


def test_an_hour_without_a_run_may_have_files(repo, page):
    for hour in ("00", "01", "04"):
        run_of(repo, hour)
    main = repo.branch("main")
    main.put(f"out/{DAY.replace('-', '/')}/02:30/late.csv", b"1")
    main.commit("by hand")
    found, text = page("runs")
    assert (looks(found), hours(found)["published"]) == ([f"{DAY} 03:00"], 4)
    assert "files, and no run of this hour" in text


def test_a_daily_pipeline_has_one_hour_a_day(repo, page):
    for number in (1, 2, 4):
        with repo.run(f"daily 2026-01-{number:02}") as run:
            run.put(f"out/{number}", b"1")
    found, _ = page("runs", month="2026-01")
    assert looks(found) == ["2026-01-03 00:00"]


@pytest.mark.parametrize("month", ["2026-13", "x", "0001-01", "9999-12", "2026-1"])
def test_a_month_that_is_none_is_refused(repo, page, month):
    found, text = page("runs", month=month)
    assert (found.status, "month" in text) == (400, True)


def test_hours_at_the_ends_of_time_do_not_break_the_calendar(repo, page):
    repo.runs.open("a 9999-12-31T23:00Z")
    repo.runs.open("b 0001-01-01T00:00Z")
    repo.runs.open("c 9799-12-31T23:00Z")
    found, _ = page("runs")
    assert (found.status, found.values["since"].year) == (200, 9799)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"state": "parked"}, ["05", "04"]),
        ({"state": "rolled_back"}, ["02"]),
        ({"text": "t06:00"}, ["06"]),
        ({"into": "dev"}, []),
        ({"state": "published", "into": "main", "text": "hourly"}, ["08", "01", "00"]),
    ],
)
def test_the_table_is_filtered(repo, page, parameters, expected):
    day(repo)
    found, text = page("runs", **parameters)
    assert keys(found) == [f"hourly {DAY}T{hour}:00Z" for hour in expected]
    assert ("No run fits" in text) == (not expected)


def test_a_state_that_is_none_is_refused(repo, page):
    assert page("runs", state="done")[0].status == 400


def test_a_publish_that_the_target_lost_is_not_shown_as_there(repo, page):
    day(repo)
    repo.undo("main")
    _, text = page("run", key=f"hourly {DAY}T08:00Z")
    assert "main has nothing of it" in text
    assert "main does not have it any more" in text


def test_a_run_shows_gates_steps_and_refusals(repo, page):
    day(repo)
    found, text = page("run", key=f"hourly {DAY}T04:00Z")
    assert [step.metadata["graveler.step"] for step in found.values["steps"]] == ["clean"]
    assert [event.what for event in found.values["events"]] == ["parked", "refused", "opened"]
    for part in ("✕ row count refused", "0 rows in the hour", "! weather warned", "by_file out/"):
        assert part in text


@pytest.mark.parametrize(
    ("hour", "way", "state"),
    [
        ("01", "rollback", "ROLLED_BACK"),
        ("02", "open", "OPEN"),
        ("04", "open", "OPEN"),
        ("05", "abandon", "REAPED"),
        ("06", "park", "PARKED"),
        ("07", "open", "OPEN"),
    ],
)
def test_the_way_out_of_a_run_is_a_command_that_works(tmp_path, monkeypatch, hour, way, state):
    with graveler.open(tmp_path, create=True) as lake:
        day(repo := lake.create_repository("flights"))
        lake.create_repository("other")
        key = f"hourly {DAY}T{hour}:00Z"
        found = Site(lake).answer("/flights/run", {"key": key})
        given = [shlex.split(each.text) for each in found.values["ways"]]
        program, *words = next(
            words for words in given if words[4] == way and "--dry-run" not in words
        )
        monkeypatch.chdir(tmp_path)
        assert (program, invoke(*words).exit_code) == ("graveler", 0)
        assert repo.runs.get(key).state == state


@pytest.mark.parametrize("key", ["--yes", "-n", "it's; rm -rf $HOME `id`", "a b\u200fc"])
def test_a_command_names_any_key_as_it_is(repo, page, key):
    repo.runs.open(key)
    ways = [way.text for way in page("run", key=key)[0].values["ways"]]
    named = [shlex.split(text)[-1] for text in ways if " park " in text]
    assert named == ([key] if key.isprintable() else [])


def test_a_run_that_is_over_its_time_says_so(repo, page, world):
    repo.runs.open("late")
    world.clock.advance(days=1)
    found, text = page("run", key="late")
    assert "It is over its time" in text
    assert "graveler --repo flights run reap --yes" in [way.text for way in found.values["ways"]]


@pytest.mark.parametrize(("key", "status"), [("", 200), ("nothing", 404)])
def test_a_run_that_is_none(repo, page, key, status):
    assert page("run", key=key)[0].status == status


def test_refusals_come_first_and_numbers_are_curves(repo, page):
    day(repo)
    found, text = page("gates")
    assert [row["hour"] for row in found.values["refused"]] == [f"{DAY}T04:00Z"]
    numbers = {gate.name: gate for gate in found.values["numbers"]}
    rows = numbers["row count"]
    assert (rows.passed, rows.refused, rows.facts["rows"]) == (4, 1, [1, 2, 3, 0, 2])
    assert numbers["weather"].warned == 5
    assert text.index("Refusals") < text.index("Judgements")
    assert text.count('class="curve"') == 2


def test_a_number_that_is_not_reported_interrupts_its_curve(repo, page):
    for number in range(4):
        run_of(repo, f"{number:02}", name=f"n{number}")
    found, _ = page("gates", gate="weather")
    assert [gate.name for gate in found.values["numbers"]] == ["weather"]
    assert found.values["numbers"][0].curves() == []


def test_gates_show_what_branches_require(repo, page):
    day(repo)
    found, text = page("gates", only="refused")
    (rule,) = found.values["required"]
    assert (rule["pattern"], rule["branches"], found.values["rest"]) == ("main", ["main"], [])
    assert "only_within" in text


@pytest.mark.parametrize(
    ("on_refusal", "state", "way"),
    [("hold", "✕ held", "--on-refusal quarantine"), ("quarantine", "! 1 in quarantine", "release")],
)
def test_ingestion_shows_what_waits_and_why(repo, page, on_refusal, state, way):
    ingest(repo, on_refusal)
    found, text = page("ingestion")
    (each,) = found.values["states"]
    assert each.by_hour == [(f"{DAY}T03:00Z", 1)]
    for part in (state, "b.bad", way):
        assert part in text
    calendar = page("runs")[0].values["looks"][0]
    assert [(hour.title[:24], hour.href) for hour in calendar] == [
        (f"{DAY} 01:00 refused", "/flights/ingestion")
    ]


def test_a_judgement_of_an_ingestion_leads_to_ingestion(repo, page):
    ingest(repo)
    _, text = page("gates")
    assert f'<a href="/flights/ingestion">ingest {DAY}T01:00Z</a>' in text


def test_an_ingestion_without_a_tick_shows_what_is_staged(repo, page):
    repo.ingestion().branch.put("odd/file", b"1")
    found, text = page("ingestion")
    assert ([each.by_hour for each in found.values["states"]], "other folders" in text) == (
        [[("", 1)]],
        True,
    )


def test_storage_says_what_it_measured_and_when(repo, page, world):
    day(repo)
    empty, text = page("storage")
    assert (empty.values["waiting"], "not measured" in text) == (None, True)
    dev = repo.create_branch("dev")
    dev.put_many((f"dev/{number}", b"x") for number in range(50))
    dev.commit("dev")
    repo.gc.keep(count=1)
    mark = repo.gc.mark(grace="0s", window="1d")
    repo.fsck()
    found, text = page("storage")
    assert [(ref.name, ref.own) for ref in found.values["held"]] == [("dev", 50), ("main", 0)]
    assert (found.values["waiting"].id, found.values["check"].problems) == (mark.id, 0)
    assert f"mark <code>{mark.id}</code>" in text
    world.clock.advance(days=2)
    repo.gc.sweep(mark.id)
    found, _ = page("storage")
    assert (found.values["waiting"], found.values["collected"].id) == (None, mark.id)


def test_a_collected_head_is_said_to_be_collected(repo, page):
    day(repo)
    repo.tags.create("old", "main~1")
    found, _ = page("storage")
    assert {ref.name for ref in found.values["held"]} == {"main", "old"}
    assert all(one.reused_bytes + one.written_bytes for one in found.values["reuse"])


@pytest.mark.parametrize("name", ["runs", "gates", "ingestion", "storage"])
def test_an_empty_repository_has_pages(repo, page, name):
    found, text = page(name)
    assert (found.status, "<table" in text) == (200, name == "storage")


@pytest.mark.parametrize(
    ("key", "hour"),
    [
        ("hourly 2013-01-01T05:00Z", "05:00"),
        ("dag scheduled__2013-01-01T05:00:00+00:00", "05:00"),
        ("asset 2013-01-01-05:00", "05:00"),
        ("input/2013/01/01/05:00", "05:00"),
        ("weather 2013-01-01T05", "05:00"),
        ("daily 2013-01-01", "00:00"),
        ("daily 2013-01-01 of 7", "00:00"),
        ("build 12013-01-01", None),
        ("2013-02-30T05:00", None),
        ("2013-01-01T25:00", None),
        ("adhoc", None),
    ],
)
def test_the_hour_of_a_key(repo, key, hour):
    expected = None if hour is None else datetime.fromisoformat(f"2013-01-01T{hour}Z")
    assert named_hour(key) == expected
    repo.runs.open(key)
    assert [at for at, _ in repo.runs.hours()] == ([] if hour is None else [expected])


def test_outlines_are_those_of_the_records(repo):
    day(repo)
    repo.runs.open("adhoc")
    branches = [branch for _, branch in repo.runs.hours()]
    outlines = list(repo.runs.outlines([*branches, "run-nothing"]))
    records = [record for record in repo.runs.list() if record.key != "adhoc"]
    assert [(each.key, each.state, each.reason, each.refusals) for each in outlines] == [
        (each.key, each.state, each.reason, each.refusals) for each in records
    ]


def test_pages_of_thousands_of_runs_read_a_part_of_them(world, lake):
    add_hours(lake.create_repository("flights"), 2_500, ("hourly", "weather"))
    process = Process()
    with world.open(process) as watched:
        site = Site(watched, clock=world.clock)
        for name, most in (("runs", 2_200), ("gates", 700), ("ingestion", 20), ("storage", 200)):
            process.calls.clear()
            found = site.answer(f"/flights/{name}", {})
            assert (found.status, len(process.calls) <= most) == (200, True), len(process.calls)


def test_older_pages_continue_where_the_last_one_ended(lake, page):
    add_hours(repo := lake.create_repository("flights"), 700)
    found, _ = page("runs")
    seen = keys(found)
    while after := found.values["last"]:
        found, _ = page("runs", after=after)
        seen += keys(found)
    assert seen == [record.key for record in repo.runs.list()]
    assert found.values["found"]
    rare = page("runs", state="parked", text="01-05")[0]
    assert keys(rare) == ["hourly 2013-01-05T00:00Z"]


def test_a_new_repository_of_a_name_is_not_the_old_one(lake, page):
    run_of(lake.create_repository("flights"), "00")
    assert keys(page("runs")[0])
    lake.delete_repository("flights")
    assert page("runs")[0].status == 404
    lake.create_repository("flights", storage="mem://another")
    assert keys(page("runs")[0]) == []
