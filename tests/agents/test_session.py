"""Sessions of an agent: it reads, writes on its branch, is refused, corrects its work and publishes."""

import pytest

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
    assert (run.state, run.attempt) == ("PUBLISHED", 2)
    assert agent.status()["head"]["id"] == repo.commit("main").id
