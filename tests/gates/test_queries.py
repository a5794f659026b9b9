"""Gates in SQL and by a schema of Pandera: what they refuse, and what they cannot reach."""

from typing import Any

import pandas as pd
import pytest

from graveler import Gate, checks
from graveler.errors import InvalidInputError
from tests.gates.files import File, csv, judged, rows, table

LATE = table({"carrier": ["UA", "DL", "XX"], "delay": [5, -500, -700]})
FINE = table({"carrier": ["UA"], "delay": [5]})
KNOWN = File("/carriers.csv", b"carrier\nUA\nDL\n", "d")
IMPOSSIBLE = "select carrier, delay from 'o/' where delay < -120 order by delay"
UNKNOWN = "select distinct carrier from 'new:o/' where carrier not in (select carrier from 'd/')"

QUERIES: dict[str, Any] = {
    "no row": (IMPOSSIBLE, "", FINE),
    "rows": (IMPOSSIBLE, "carrier=XX, delay=-700; carrier=DL, delay=-500", LATE),
    "two tables": (UNKNOWN, "carrier=XX", LATE, KNOWN),
    "csv": ("select * from 'o/' where z > 2", "z=3, other=1", csv(1, 2, 3)),
    "a common table": ("with t as (from 'o/') select * from t where delay > 9", "", LATE),
    "a total": ("select sum(delay) s from 'o/' having s < 0", "s=-1195", LATE),
    "nothing there": ("select * from 'elsewhere/'", "there is nothing below 'elsewhere/'", FINE),
    "no such column": ("select nope from 'o/'", "nope", FINE),
    "a file of the host": (
        "select * from read_csv('/etc/passwd'), 'o/'",
        "file system operations are disabled",
        FINE,
    ),
    "names that differ in case": (
        "select * from 'o/' where x > 1",
        "DuckDB takes the columns 'X' and 'x' for one",
        table({"X": [1], "x": [2]}),
    ),
    "more than five": (
        "select id from 'o/' order by id",
        "id=4; and 95 more",
        File(".parquet", rows(100)),
    ),
}


@pytest.mark.parametrize("case", QUERIES)
def test_each_row_of_a_query_is_a_violation(repo, case):
    query, expected, *files = QUERIES[case]
    verdict = judged(repo, checks.sql(query), *files)
    assert expected in verdict.reason
    assert verdict.passed is not bool(expected)


def test_the_first_rows_are_facts_of_the_verdict(repo):
    verdict = judged(repo, checks.sql(IMPOSSIBLE), LATE)
    assert verdict.facts["count"] == 2
    assert verdict.facts["rows"][0] == {"carrier": "XX", "delay": -700}


def test_a_query_compares_with_the_branch_as_it_is(repo):
    gate = checks.sql(
        "select b.carrier from 'before:o/' b anti join 'o/' n using (carrier)", missing="allow"
    )
    with repo.run("first", gates=[gate]) as run:
        run.put("o/a.parquet", LATE.data)
    run = repo.runs.open("second")
    run.put("o/a.parquet", FINE.data)
    run.commit_staged()
    (verdict,) = run.judge([gate])
    assert {row["carrier"] for row in verdict.facts["rows"]} == {"DL", "XX"}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("delete from 'o/'", "Only SELECT"),
        ("select * from 'o/'; select 1", "give one select"),
        ("select 1", "it reads no table"),
        ("selec", "syntax error"),
        ("select * from '/o/'", "no path begins so"),
    ],
)
def test_a_query_that_cannot_judge_is_refused_when_made(query, says):
    with pytest.raises(InvalidInputError, match=says):
        checks.sql(query)


def test_a_query_can_be_required_and_run_apart(disk):
    disk.gates.require("main", checks.sql(IMPOSSIBLE, isolated=True))
    verdict = judged(disk, checks.sql(UNKNOWN, isolated=True), LATE, KNOWN)
    assert "carrier=XX" in verdict.reason
    assert "delay=-700" in disk.runs.get("hour").verdicts[1].reason


@pytest.fixture
def schemas(monkeypatch):
    """The schema of flights in both forms of Pandera."""
    # Pandera imports pandas on Spark, which tells pyarrow to ignore zones in the whole process
    monkeypatch.setenv("PYARROW_IGNORE_TIMEZONE", "")
    import pandera.pandas as pandera

    class Flights(pandera.DataFrameModel):
        delay: int = pandera.Field(ge=-120)

    checked = pandera.Column(int, pandera.Check.ge(-120))
    return Flights, pandera.DataFrameSchema({"delay": checked})


@pytest.mark.parametrize("form", [0, 1], ids=["model", "schema"])
@pytest.mark.parametrize("scope", ["changes", "all"])
def test_a_schema_of_pandera_names_the_rows(repo, schemas, form, scope):
    gate = checks.pandera("o/", schemas[form], scope=scope)
    assert judged(repo, gate, FINE).passed
    verdict = judged(repo, gate, LATE)
    assert "row 1: delay -500 fails greater_than_or_equal_to(-120)" in verdict.reason
    assert verdict.facts["count"] == 2
    missing = judged(repo, checks.pandera("x/", schemas[form]), FINE)
    assert "there is nothing below" in missing.reason
    assert checks.pandera("o/", schemas[form], name="flights").name == "flights"


def test_pandera_takes_a_schema_only():
    with pytest.raises(InvalidInputError, match="give a schema of Pandera"):
        checks.pandera("o/", "flights")


def broken(candidate):
    return pd.DataFrame({"a": [1]})["b"].sum() > 0


def refuses(candidate):
    assert candidate.get("o/0.parquet") == b"", "not empty"


@pytest.mark.parametrize("isolated", [False, True])
def test_a_gate_that_fails_shows_its_line(disk, isolated):
    verdict = judged(disk, Gate("broken", broken, isolated=isolated), FINE)
    place = verdict.facts["at"]
    assert place == f"test_queries.py:{broken.__code__.co_firstlineno + 1}"
    assert verdict.facts["traceback"][0] == "Traceback (most recent call last):"
    assert "KeyError: 'b'" in verdict.facts["traceback"][-1]
    verdict = judged(disk, Gate("refuses", refuses, isolated=isolated), FINE)
    assert verdict.facts == {"at": f"test_queries.py:{refuses.__code__.co_firstlineno + 1}"}
    assert verdict.reason.splitlines()[0] == "not empty"
