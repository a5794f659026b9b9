"""Sessions of an agent: it reads, writes on its branch, is refused, corrects its work and publishes."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from graveler import checks
from graveler.agents.answers import Room
from graveler.agents.query import run_query
from graveler.agents.session import AgentSession
from graveler.errors import GateFailedError, InvalidInputError
from tests.harness.agents import Refused


def test_a_refused_session_corrects_its_work_and_publishes(agent, repo):
    before = repo.commit("main").id
    assert [item["path"] for item in agent.list(path="output/05/")["items"]] != []
    found = agent.query(sql="select min(delay) from 'output/' group by all")
    assert found["rows"] == [[-3]]

    agent.put_rows(path="output/06/f.parquet", rows=[{"carrier": "AA", "delay": -900}])
    agent.commit(message="the hour 06")
    assert agent.check()["refused"]
    with pytest.raises(Refused) as refused:
        agent.publish(message="the hour 06")
    assert refused.value.code == "gate-failed"
    (verdict,) = refused.value.error["verdicts"]
    assert "delay=-900" in verdict["reason"]
    assert verdict["facts"]["rows"] == [{"carrier": "AA", "delay": -900}]
    assert repo.commit("main").id == before

    agent.put_rows(
        path="output/06/f.parquet", rows=[{"carrier": "AA", "delay": 9}], mode="overwrite"
    )
    agent.commit(message="corrected")
    published = agent.publish(message="the hour 06, corrected")["published"]
    assert repo.commit("main").id == published["commit"]["id"]
    assert repo.commit("main").message == "the hour 06, corrected"
    (run,) = repo.runs.list()
    assert (run.state, run.attempt, len(run.refusals)) == ("PUBLISHED", 3, 1)
    assert agent.status()["head"]["id"] == repo.commit("main").id


def test_the_tools_are_these_and_say_which_of_them_write(agent):
    tools = {tool.name: tool.annotations.read_only_hint for tool in agent.tools()}
    reads = {name for name, reads in tools.items() if reads}
    assert reads == {
        *("status", "repositories", "refs", "list", "read", "compare", "history", "why"),
        *("runs", "verdicts", "query"),
    }
    writes = {"put_text", "put_rows", "delete", "commit", "reset", "check", "publish"}
    assert tools.keys() - reads == writes
    assert all(
        tool.description and not tool.input_schema["additionalProperties"] for tool in agent.tools()
    )


def test_a_branch_is_made_by_the_first_write_and_expires(agent, repo, world):
    assert agent.status()["branch"] is None
    assert [record.name for record in repo.branches()] == ["main"]
    agent.put_text(path="notes/a.txt", text="1")
    agent.commit(message="notes")
    name = agent.status()["branch"]
    assert agent.refs()["items"][0]["name"] == name
    world.clock.advance(timedelta(days=8))
    (ended,) = repo.maintain(dry_run=False).ending
    assert (ended.branch, ended.deleted) == (name, True)
    with pytest.raises(Refused) as refused:
        agent.put_text(path="notes/b.txt", text="1")
    assert refused.value.code == "ref-not-found"


def test_gates_judge_the_hour_that_a_session_names(agent, repo):
    repo.gates.require("main", checks.only_within("output/{hour}/"))
    for hour in ("05", "06"):
        agent.put_rows(path=f"output/2013/01/01/{hour}:00/", rows=[{"delay": 1}])
        agent.commit(message=hour)
        assert agent.check()["refused"]
        assert not agent.check(hour=f"2013-01-01T{hour}:00Z")["refused"]
        assert repo.runs.list().__next__().state == "REAPED"
        agent.publish(message=hour, hour=f"2013-01-01T{hour}:00Z")
    (run,) = repo.runs.list()
    assert [run.state, run.metadata["hour"]] == ["PUBLISHED", "2013-01-01T06:00Z"]


def test_what_is_staged_can_be_dropped_or_all_work(agent, repo):
    agent.put_text(path="a.txt", text="1")
    agent.commit(message="one")
    agent.delete(paths=["readme.txt"])
    assert agent.status()["staged"]["items"] == ["readme.txt"]
    assert agent.reset() == {"dropped": 1, "head": agent.status()["head"]["id"]}
    assert agent.read(path="a.txt")["text"] == "1"
    assert agent.reset(everything=True)["head"] == repo.commit("main").id


def test_a_session_takes_what_main_has_since_and_publishes(agent, repo):
    agent.put_text(path="a.txt", text="mine")
    agent.commit(message="mine")
    main = repo.branch("main")
    main.put("a.txt", b"theirs")
    main.put("b.txt", b"theirs")
    main.commit("theirs")
    with pytest.raises(Refused, match="reset with everything=true") as refused:
        agent.check()
    assert [conflict["path"] for conflict in refused.value.error["conflicts"]] == ["a.txt"]
    agent.reset(everything=True)
    agent.put_text(path="a.txt", text="mine again")
    agent.delete(paths=["b.txt"])
    agent.commit(message="mine again")
    assert agent.check()["removed"] == 1
    agent.publish(message="mine again")
    assert [repo.ref("main").get("a.txt"), repo.ref("main").exists("b.txt")] == [
        b"mine again",
        False,
    ]
    agent.put_text(path="a.txt", text="more")
    agent.commit(message="more")
    agent.publish(message="more")
    assert repo.ref("main").get("a.txt") == b"more"


def test_a_main_that_moves_during_a_publish_is_named(agent, repo, monkeypatch):
    agent.put_text(path="a.txt", text="1")
    agent.commit(message="a")
    look = AgentSession._preview

    def overtaken(session):
        found = look(session)
        repo.branch("main").put("b.txt", b"theirs")
        repo.branch("main").commit("theirs")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(AgentSession, "_preview", overtaken)
        with pytest.raises(Refused, match="'main' has just moved: call again") as refused:
            agent.publish(message="a")
    assert refused.value.code == "precondition-failed"
    (run,) = repo.runs.list()
    assert (run.state, repo.commit("main").message) == ("PARKED", "theirs")
    agent.publish(message="a")
    assert repo.ref("main").get("a.txt") == b"1"
    assert repo.ref("main").get("b.txt") == b"theirs"


def test_a_base_and_a_destination_are_of_the_session(begin, repo):
    repo.tags.create("v1")
    dev = repo.create_branch("dev")
    dev.put("dev.txt", b"1")
    dev.commit("dev")
    agent = begin(base="v1", into="dev", publish_to={"flights:dev"})
    assert agent.list()["items"] == [
        {"path": "output/"},
        *(item for item in agent.list(ref="v1")["items"] if item["path"] == "readme.txt"),
    ]
    agent.put_text(path="b.txt", text="1")
    agent.commit(message="b")
    agent.publish(message="b")
    assert repo.ref("dev").exists("dev.txt")
    assert repo.ref("dev").exists("b.txt")
    assert not repo.ref("main").exists("b.txt")


def test_rows_take_the_types_of_their_table(agent, repo):
    main = repo.branch("main")
    seen = datetime(2013, 1, 1, 5, tzinfo=UTC)
    main.write(pa.table({"n": pa.array([1], pa.int16()), "seen": [seen]}), "t/")
    main.commit("a table")
    agent.put_rows(path="t/", rows=[{"n": 2, "seen": "2013-01-01T06:00:00Z"}])
    agent.commit(message="another row")
    found = agent.query(sql="select typeof(n), seen from 't/' order by n")
    assert found["rows"][1] == ["SMALLINT", found["rows"][0][1].replace("05:00", "06:00")]
    with pytest.raises(Refused, match="rows for 't/'"):
        agent.put_rows(path="t/", rows=[{"n": 70_000}])


def test_reads_answer_by_pages(agent, repo):
    main = repo.branch("main")
    main.put_many({f"many/{number:04}.txt": b"x" for number in range(1_200)})
    main.put("long.txt", "1é€".encode() * 30_000 + b"\xff\xe2")
    main.put("rows.csv", b"a,b\n" + b"1,x\n" * 30)
    main.commit("m" * 3_000)
    repo.tags.create("v1", "main~1")
    first = agent.list(path="many/", limit=1_000)
    found = [item["path"] for item in first["items"]]
    while first["more"]:
        first = agent.list(path="many/", limit=1_000, after=first["next"])
        found += [item["path"] for item in first["items"]]
    assert found == [entry.path for entry in repo.ref("main").entries("many/")]

    part = agent.read(path="long.txt")
    text = part["text"]
    while part["next"] is not None:
        part = agent.read(path="long.txt", start=part["next"])
        text += part["text"]
    assert agent.read(path="long.txt", start=10**9)["text"] == ""
    assert text == "1é€" * 30_000 + r"\xff\xe2"
    assert agent.read(path="rows.csv", rows=2)["rows"]["items"] == [{"a": "1", "b": "x"}] * 2

    compared = agent.compare(left="v1", right="main", limit=2)
    assert compared["totals"] == {"added": 1_202}
    rest = agent.compare(left="v1", right="main", after=compared["next"], path="many/")
    assert rest["items"][0]["path"] == "many/0001.txt"
    assert agent.refs(kind="tags")["items"] == [{"name": "v1", "commit": repo.commit("v1").id}]
    assert [one["message"] for one in agent.history(path="readme.txt")["items"]] == ["first"]
    assert agent.repositories()["items"] == ["flights"]


def test_runs_verdicts_and_origins_say_which_hour_and_why(agent, repo):
    def refused(candidate):
        return "0 rows, 9 landed"

    with pytest.raises(GateFailedError):
        with repo.run("hour 06", metadata={"hour": "06"}, gates=[refused]) as run:
            run.put("notes/06.txt", b"1")
    with repo.run("hour 07", metadata={"hour": "07"}) as run:
        run.put("notes/07.txt", b"1")
    (parked,) = agent.runs(state="PARKED")["items"]
    assert (parked["key"], parked["metadata"]["hour"]) == ("hour 06", "06")
    assert "0 rows, 9 landed" in parked["reason"]
    verdicts = agent.runs(key="hour 06")["run"]["verdicts"]
    assert "0 rows, 9 landed" in [verdict["reason"] for verdict in verdicts]
    (verdict,) = agent.verdicts(refused=True)["items"]
    assert verdict["run"] == "hour 06"
    assert agent.why(path="notes/07.txt", ref="main")["why"]["key"] == "hour 07"


@pytest.mark.parametrize(
    "value", ["x" * 10**6, "\x01" * 10**6, ["é" * 9_000] * 900, {"a": [0] * 10**6}]
)
def test_an_answer_is_cut_to_its_room(value):
    room = Room()
    assert len(json.dumps(room.fit({"value": value}))) < 1_500_000
    assert room.cut


def test_a_query_answers_within_its_bounds(agent):
    wide = agent.query(
        sql="select repeat('\"', 9000) a, repeat('é', 9000) b, i from range(99) t(i)"
    )
    assert wide["more"]
    assert 0 < len(json.dumps(wide, ensure_ascii=False)) < 40_000
    odd = agent.query(sql=f'select 1 as "{"n" * 9_000}", 170141183460469231731687303715884105727')
    assert odd["rows"] == [[1, 2**127 - 1]]


def test_a_query_takes_no_column_for_another(repo):
    repo.branch("main").put("t/a.csv", b"X,x\n1,2\n")
    commit = repo.branch("main").commit("a table")
    with pytest.raises(InvalidInputError, match="takes the columns 'X' and 'x' for one"):
        run_query(repo.stores, commit, "select x from 't/'", 1)


def test_a_query_that_takes_too_long_is_stopped(repo):
    sql = "select levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
    with pytest.raises(InvalidInputError, match="longer than its timeout of 1 s"):
        run_query(repo.stores, repo.commit("main"), sql, 1, seconds=1)
